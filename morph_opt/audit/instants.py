"""Rounds at instants of a log: jobs that ran, that waited, and that would have fitted.

Running jobs stay where they are; the choice is which waiting jobs start next to them. The
weight of a job is its GPUs, so the optimum puts as many idle GPUs to work as possible.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from morph_opt.audit.places import Places, free_gpus
from morph_opt.audit.recorded import Recorded, RecordedJob
from morph_opt.core.domain import Cluster, InputError
from morph_opt.round.decide import decide_round
from morph_opt.round.live.build import LiveJob, LiveNode, live_round
from morph_opt.scheduling.policies.registry import PolicyOptions

MOST_INSTANTS = 200_000
_ABSOLUTE_S = 1e8
"""Least number of seconds that counts as a time since 1970."""
_GAP = 1e-7
"""Relative gap of a round: less than half a GPU on any cluster."""


@dataclass(frozen=True, slots=True)
class Instant:
    """Instant of a log.

    Parameters
    ----------
    time_s
        On the log's clock.
    used, idle
        GPUs of the cluster that jobs hold, and the others: together all of them.
    waiting, waiting_gpus
        Jobs that wait, and what they ask for.
    fillable
        Idle GPUs that the optimum gives to jobs that wait: the gap.
    bound
        No decision gives more to them; ``fillable`` where the optimum is proven.
    by_count
        The same if all that counted were how many GPUs are idle: the rest is scattered.
    passed
        Jobs that wait although one that was submitted later and is no smaller runs, in their
        partition.
    missing
        GPUs that jobs hold, by the log, beyond those of the nodes that it names.
    started
        Names of the jobs that the optimum starts.
    by_partition
        ``fillable`` by partition.
    """

    time_s: float
    used: int
    idle: int
    waiting: int
    waiting_gpus: int
    fillable: int = 0
    bound: int = 0
    by_count: int = 0
    passed: int = 0
    missing: int = 0
    started: tuple[str, ...] = ()
    by_partition: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Audit:
    """Audit of a log at all its instants.

    Parameters
    ----------
    every_s
        Seconds between two of them.
    gpus
        GPUs of the cluster.
    instants
        In order.
    notes
        Assumptions, a line each.
    """

    every_s: float
    gpus: int
    instants: tuple[Instant, ...]
    notes: tuple[str, ...]


class _Columns:
    """Jobs and intervals as arrays, so that an instant is two comparisons."""

    def __init__(self, jobs: Sequence[RecordedJob]) -> None:
        intervals = [(at, one) for at, job in enumerate(jobs) for one in job.intervals]
        self.intervals = [one for _, one in intervals]
        self.job_of = np.asarray([at for at, _ in intervals], dtype=np.int64)
        self.start_s = np.asarray([one.start_s for one in self.intervals])
        self.end_s = np.asarray([one.end_s for one in self.intervals])
        self.ready_s = np.asarray([max(job.submit_s, job.ready_s) for job in jobs])
        self.first_s = np.asarray([min(job.submit_s, job.first_s) for job in jobs])
        self.gone_s = np.asarray([job.end_s for job in jobs])
        self.gpus = np.asarray([job.gpus for job in jobs], dtype=np.int64)
        limits = {job.array: job.at_once for job in jobs if job.at_once is not None}
        self.limits = {number: limits[array] for number, array in enumerate(sorted(limits))}
        arrays = {array: number for number, array in enumerate(sorted(limits))}
        self.array = np.asarray([arrays.get(job.array, -1) for job in jobs], dtype=np.int64)
        names = sorted({job.partition for job in jobs})
        self.partition = np.asarray([names.index(job.partition) for job in jobs], dtype=np.int64)

    def at(self, time_s: float) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return indices of the intervals that hold GPUs, and of the jobs that wait.

        Tasks that the limit of their array keeps from running do not wait for GPUs.
        """
        holding = np.flatnonzero((self.start_s <= time_s) & (time_s < self.end_s))
        there = (self.ready_s <= time_s) & (time_s < self.gone_s)
        there[self.job_of[holding]] = False
        for array, at_once in self.limits.items():
            run = int((self.array[self.job_of[holding]] == array).sum())
            more = np.flatnonzero(there & (self.array == array))[max(0, at_once - run) :]
            there[more] = False
        return holding, np.flatnonzero(there)


def time_text(time_s: float) -> str:
    """Return an instant as text: date and time, or seconds on clocks that begin at 0."""
    if time_s < _ABSOLUTE_S:
        return f"{time_s:g} s"
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def audit(recorded: Recorded, cluster: Cluster, every_s: float = 3600.0) -> Audit:
    """Audit a log on a cluster.

    Raises
    ------
    InputError
        If a job ran on a node that the cluster does not have, the window misses the log, or there
        would be no or too many instants.
    """
    places = Places(recorded, cluster)
    columns = _Columns(recorded.jobs)
    ends = columns.end_s[np.isfinite(columns.end_s)]
    begin_s, end_s = recorded.window
    from_s, until_s = float(columns.first_s.min()), float(columns.start_s.max())
    until_s = max(until_s, float(ends.max(initial=0.0)))
    if end_s <= from_s or begin_s >= until_s:
        log = f"from {time_text(from_s)} to {time_text(until_s)}"
        raise InputError(f"the window misses the log, which runs {log}")
    last_s = min(end_s, until_s)
    first = math.floor(from_s / every_s)
    if math.isfinite(begin_s):
        first = max(first, math.ceil(begin_s / every_s) - 1)
    # The last instant is before the end of the log: after it no job runs.
    count = math.ceil(last_s / every_s) - 1 - first
    if count < 1:
        what = "log" if recorded.window == (-math.inf, math.inf) else "window of the log"
        rule = f"is longer than the {what}, which has {max(0.0, last_s - first * every_s):g} s"
        raise InputError(rule, field="--every")
    if count > MOST_INSTANTS:
        rule = f"makes {count} instants, at most {MOST_INSTANTS}: give more seconds"
        raise InputError(rule, field="--every")
    found = tuple(
        _instant((first + step) * every_s, recorded.jobs, columns, places)
        for step in range(1, count + 1)
    )
    return Audit(every_s, cluster.gpus, found, (*recorded.notes, *places.notes))


def _instant(
    time_s: float, jobs: Sequence[RecordedJob], columns: _Columns, places: Places
) -> Instant:
    holding, waits = columns.at(time_s)
    held = [(jobs[columns.job_of[at]], columns.intervals[at]) for at in holding.tolist()]
    free, missing = free_gpus(places, held)
    idle = int(free.sum())
    used = sum(one.gpus for _, one in held) - missing
    asked = columns.gpus[waits]
    plain = Instant(
        time_s,
        used,
        idle,
        waits.size,
        int(asked.sum()),
        passed=_passed(columns, holding, waits),
        missing=missing,
    )
    waiting = [jobs[at] for at in waits.tolist()]
    small = [job for job in waiting if job.gpus <= idle]
    if not small:
        return plain
    by_count = _largest_sum(Counter(job.gpus for job in small), idle)
    chosen, bound = _optimum(small, free, places, by_count)
    parts: dict[str, int] = defaultdict(int)
    for job in chosen:
        parts[job.partition] += job.gpus
    return replace(
        plain,
        fillable=sum(job.gpus for job in chosen),
        bound=min(bound, by_count),
        by_count=by_count,
        started=tuple(job.name for job in chosen),
        by_partition=dict(parts),
    )


def _passed(columns: _Columns, holding: npt.NDArray[np.int64], waits: npt.NDArray[np.int64]) -> int:
    """Return the number of jobs that wait while a later, no smaller one of their partition runs."""
    running = columns.job_of[holding]
    passed = 0
    for part in np.unique(columns.partition[waits]).tolist():
        run = running[columns.partition[running] == part]
        wait = waits[columns.partition[waits] == part]
        if not run.size:
            continue
        # Latest submission among runners of at least each size: larger first, running maximum.
        order = np.argsort(-columns.gpus[run], kind="stable")
        latest = np.maximum.accumulate(columns.first_s[run][order])
        place = np.searchsorted(-columns.gpus[run][order], -columns.gpus[wait], side="right") - 1
        known = place >= 0
        passed += int((latest[place[known]] > columns.first_s[wait[known]]).sum())
    return passed


def _largest_sum(sizes: Mapping[int, int], most: int) -> int:
    """Return the largest sum of these sizes that is at most ``most``."""
    reach = 1  # bit n: n GPUs can be reached
    mask = (1 << (most + 1)) - 1
    for size, count in sizes.items():
        left, step = min(count, most // size), 1
        while left > 0:  # binary splitting: 1, 2, 4, ... of them
            take = min(step, left)
            reach |= (reach << (size * take)) & mask
            left -= take
            step *= 2
    return reach.bit_length() - 1


def _optimum(
    waiting: Sequence[RecordedJob],
    free: npt.NDArray[np.int64],
    places: Places,
    by_count: int,
) -> tuple[list[RecordedJob], int]:
    """Return the jobs that the optimum starts, and the bound on their GPUs.

    Jobs of one size, shape and set of nodes are interchangeable: no more of them are posed than
    fit, the first submitted ones. A greedy filling that reaches the bound by count needs no round.
    """
    kept = list(_interchangeable(waiting, int(free.sum()), places))
    greedy = _greedy(kept, free.copy(), places)
    if sum(job.gpus for job in greedy) >= by_count:
        return greedy, by_count
    live = live_round(*_posed(kept, free, places), 0.0)
    decided = decide_round(live.snapshot, PolicyOptions(gap=_GAP))
    started = {row["job"] for row in decided.to_json()["jobs"] if row["action"] == "start"}
    chosen = [job for at, job in enumerate(kept) if str(at) in started]
    report = decided.decision.report
    stays = sum(known.job.weight for known in live.snapshot.state.jobs if known.running)
    value = sum(job.gpus for job in chosen)
    bound = report.bound - stays
    return chosen, max(value, math.floor(bound + 1e-3)) if math.isfinite(bound) else by_count


def _interchangeable(
    waiting: Sequence[RecordedJob], idle: int, places: Places
) -> Iterator[RecordedJob]:
    seen: Counter[tuple[object, ...]] = Counter()
    for job in waiting:
        key = (job.gpus, places.per_node(job), places.partition_of(job), places.type_of(job))
        seen[key] += 1
        if seen[key] <= idle // job.gpus:
            yield job


def _greedy(
    waiting: Sequence[RecordedJob], free: npt.NDArray[np.int64], places: Places
) -> list[RecordedJob]:
    """Choose jobs largest first, each on the nodes that it fills best."""
    chosen = []
    for job in sorted(waiting, key=lambda one: -one.gpus):
        if places.take(job, free):
            chosen.append(job)
    return chosen


def _posed(
    waiting: Sequence[RecordedJob], free: npt.NDArray[np.int64], places: Places
) -> tuple[list[LiveNode], list[LiveJob]]:
    """Return nodes and jobs of the round, with full nodes closed and held GPUs as jobs."""
    nodes, jobs = [], []
    for at, node in enumerate(places.cluster.nodes):
        groups = places.groups_of(at)
        left = int(free[at])
        nodes.append(LiveNode(node.name, node.type.gpu_type.name, node.type.gpus, left > 0, groups))
        held = node.type.gpus - left
        if left and held:
            parts = ((node.name, tuple(range(held))),)
            jobs.append(
                LiveJob(f"held on {node.name}", "held", held, 0.0, started_s=0.0, parts=parts)
            )
    for at, job in enumerate(waiting):  # a log may have a name twice
        partition = places.partition_of(job)
        jobs.append(
            LiveJob(
                str(at),
                "waits",
                job.gpus,
                0.0,
                gpu_type=places.type_of(job) or "",
                per_node=places.per_node(job) or 0,
                groups=(partition,) if partition is not None else (),
                weight=float(job.gpus),
            )
        )
    return nodes, jobs
