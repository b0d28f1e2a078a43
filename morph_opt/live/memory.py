"""Memory of the controller about jobs, in ``jobs.json``.

Everything else is read anew each turn, so that a controller that was killed continues where it was.
What happened between two pictures comes out as events, in the words of
`morph_opt.simulation.events.log`, with nodes and GPUs by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from morph_opt.core.documents import Fields, exists, read_json, write_atomically
from morph_opt.core.domain import ExecutionPlan, InputError, Shape, Span
from morph_opt.core.domain.units import HOUR_S
from morph_opt.live.picture import Picture, Seen
from morph_opt.round.snapshot import parts_to_json

SCHEMA = "morph-opt/live-jobs/1"
FILE = "jobs.json"
DAY_S = FORGET_S = 86_400.0
"""Seconds of a day, for which ended jobs are remembered in case they run again."""

_FURTHEST_S = 1e12
Happened = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds per iteration that a job reported, with the configuration."""

    model: str
    node_type: str
    shape: str
    plan: str
    span: str
    iteration_s: float

    @property
    def of(self) -> tuple[str, ...]:
        """Key of the configuration that was measured."""
        return self.model, self.node_type, self.shape, self.plan, self.span


@dataclass(slots=True)
class Known:
    """Memory of one job, with instants on the scheduler's clock.

    Parameters
    ----------
    iteration_s, done
        Seconds of an iteration as it ran last, and iterations of its runs before this one.
    report, report_s
        Last report, and the instant at which it was first read.
    """

    submit_s: float
    phase: str = "waiting"
    seen_s: float = 0.0
    start_s: float = 0.0
    stop_s: float = 0.0
    first_start_s: float = 0.0
    executed_s: float = 0.0
    gpu_s: float = 0.0
    gpus: int = 0
    starts: int = 0
    restarts: int = 0
    launches_failed: int = 0
    recent_s: list[float] = field(default_factory=list)
    iteration_s: float = 1.0
    done: float = 0.0
    report: str = ""
    report_s: float = 0.0

    def report_age_s(self, report: str, now_s: float) -> float:
        """Take in a report and return for how many seconds it has not changed."""
        if report != self.report:
            self.report, self.report_s = report, now_s
        return now_s - self.report_s

    def stopped(self, at_s: float) -> None:
        """Note that the job holds no GPUs any more."""
        ran_s = max(0.0, at_s - self.start_s)
        self.executed_s += ran_s
        self.gpu_s += ran_s * self.gpus
        self.done += ran_s / self.iteration_s
        self.stop_s = at_s
        self.launches_failed = self.launches_failed + 1 if ran_s <= 1.0 else 0


@dataclass(slots=True)
class Memory:
    """Memory of jobs and turns of a controller.

    Parameters
    ----------
    cluster
        Name by its scheduler; "" before the first answer.
    jobs
        By name.
    turns, observed
        Number of decided turns, and of turns after which nothing was done.
    stops_s
        Instants of our stops of the last hour.
    nodes
        Whether a node is up, drained or failed, as last seen.
    away_s
        When slurmctld last gave no answer.
    ran_again
        Jobs that ran again after their end.
    since_s, idle_gpu_s, last_turn
        Beginning of the day, GPU-seconds of it that the decisions would have used, and the instant
        of the last turn with the GPUs that its decision uses beyond those in use.
    measured
        Speeds that jobs reported.
    looked_s
        Instant of the last picture; 0 before the first.
    """

    cluster: str = ""
    jobs: dict[str, Known] = field(default_factory=dict)
    turns: int = 0
    observed: int = 0
    stops_s: list[float] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    away_s: float = -1e9
    ran_again: int = 0
    measured: list[Measured] = field(default_factory=list)
    since_s: float = 0.0
    idle_gpu_s: float = 0.0
    last_turn: tuple[float, int] = (0.0, 0)
    looked_s: float = 0.0

    def unused(self, now_s: float, gpus: int) -> dict[str, str]:
        """Count idle GPUs that the decision would use while jobs wait.

        Parameters
        ----------
        now_s
            Instant of the turn.
        gpus
            GPUs that its decision uses beyond those in use.

        Returns
        -------
        dict
            The sentence of the day for the audit log, once a day.
        """
        before_s, before = self.last_turn
        self.since_s = self.since_s or now_s
        self.idle_gpu_s += max(0, before) * max(0.0, now_s - before_s)
        self.last_turn = now_s, gpus
        if now_s - self.since_s < DAY_S:
            return {}
        content = {"day": self.sentence()}
        self.since_s, self.idle_gpu_s = now_s, 0.0
        return content

    def sentence(self) -> str:
        """Return a sentence on the GPU-hours that the decisions would have used today."""
        hours = (self.last_turn[0] - self.since_s) / HOUR_S
        return (
            f"in {hours:.1f} h, with these rules {self.idle_gpu_s / HOUR_S:.1f} GPU-hours would "
            "have been used that stood idle while jobs waited"
        )

    def submitted_s(self) -> Mapping[str, float]:
        """Return the first submission of each job."""
        return {name: known.submit_s for name, known in self.jobs.items()}

    def take(self, picture: Picture) -> list[Happened]:
        """Take in a picture and return what happened since the previous one."""
        if self.cluster not in ("", picture.cluster):
            rule = f"is of cluster {self.cluster!r}, this is {picture.cluster!r}: name a new folder"
            raise InputError(rule, file=FILE)
        self.cluster = picture.cluster
        now_s = picture.time_s
        self.stops_s = [at for at in self.stops_s if at > now_s - HOUR_S]
        events = list(self._nodes(picture))
        cluster, states = picture.live.snapshot.state.cluster, picture.live.snapshot.state.jobs
        held = {known.job.name: known.running for known in states if known.running is not None}
        asked = {known.job.name: known.job.requested_gpus for known in states}
        for name, seen in picture.jobs.items():
            # Else it is part of another, without GPUs, or was over before we came.
            ours = name in asked or name in self.jobs or name in picture.live.held
            if seen.rest or not (ours or (seen.gpus_held and 0.0 < self.looked_s <= seen.end_s)):
                continue
            places = held.get(name)
            parts = [] if places is None else parts_to_json(places, cluster)
            events += self._job(seen, parts, asked.get(name) or seen.gpus_held or 1, now_s)
        for name in self.jobs.keys() - picture.jobs.keys():
            known = self.jobs[name]
            if known.phase in ("waiting", "running"):
                # It was forgotten before we looked: it ended while we were away.
                events += self._ended(name, known, "vanished", now_s)
            elif known.seen_s < now_s - FORGET_S:
                del self.jobs[name]
        self.looked_s = now_s
        return sorted(events, key=lambda event: float(event["time_s"]))

    def _nodes(self, picture: Picture) -> Iterator[Happened]:
        state = picture.live.snapshot.state
        busy = {node for k in state.jobs if k.running for node in k.running.placement.nodes}
        for i, node in enumerate(state.cluster.nodes):
            # A node that does not respond is lost when its scheduler takes its jobs away.
            lost = node.name in picture.silent and i not in busy
            word = "failed" if lost else "drained" if i in state.unavailable else "up"
            if self.nodes.get(node.name, "up") != word:
                yield {"event": "node", "time_s": picture.time_s, "node": node.name, "status": word}
            self.nodes[node.name] = word

    def _job(self, seen: Seen, parts: list[Any], gpus: int, now_s: float) -> Iterator[Happened]:
        name, known = seen.name, self.jobs.get(seen.name)
        if known is None:
            known = self.jobs[name] = Known(seen.submit_s)
            yield {"event": "submit", "time_s": seen.submit_s, "job": name, "gpus": gpus}
        known.seen_s = now_s
        # A run that began and ended between two looks is known by what Slurm says of it afterwards.
        later = seen.start_s > known.start_s
        unseen = later and seen.gpus_held > 0
        again = later and known.phase == "running" and (seen.runs or unseen)
        if known.phase == "running" and (again or not seen.runs):
            if seen.over and not again:
                yield from self._ended(name, known, seen.phase, seen.end_s or now_s)
            elif seen.phase != "ending" or again or (seen.back and not parts):
                known.stopped(now_s if seen.waits else min(now_s, seen.start_s or now_s))
                known.phase = "waiting"
                # A requeue is a submission; that it is over is known from now on.
                at_s = seen.submit_s if known.start_s < seen.submit_s <= now_s else known.stop_s
                yield {"event": "preempt", "time_s": at_s, "job": name}
        if known.phase != "running" and (unseen or (seen.runs and parts)):
            if known.phase != "waiting":
                self.ran_again += 1
                yield {"event": "again", "time_s": now_s, "job": name, "after": known.phase}
            known.phase, known.start_s = "running", seen.start_s
            known.first_start_s = known.first_start_s or seen.start_s
            known.gpus = seen.gpus_held or sum(len(part["gpus"]) for part in parts)
            known.starts += 1
            recent = [at for at in known.recent_s if at > now_s - HOUR_S]
            known.recent_s = [*recent, seen.start_s]
            where = {"on": seen.nodes, "gpus": known.gpus} if unseen else {"nodes": parts}
            yield {"event": "start", "time_s": seen.start_s, "job": name, **where}
        if seen.over and known.phase in ("waiting", "running"):
            yield from self._ended(name, known, seen.phase, seen.end_s or now_s)

    def _ended(self, name: str, known: Known, word: str, at_s: float) -> Iterator[Happened]:
        if known.phase == "running":
            known.stopped(max(at_s, known.start_s))
        known.phase = word
        done = word in ("completed", "vanished")
        kind = "complete" if done else "cancel"
        yield {"event": kind, "time_s": at_s, "job": name, "state": word}


def read_memory(folder: Path) -> Memory:
    """Read the memory of a folder; return a fresh one if there is none.

    Raises
    ------
    InputError
        If ``jobs.json`` is not one of ours.
    """
    path = folder / FILE
    if not exists(path):
        return Memory()
    names = ("schema", *(one.name for one in fields(Memory)))
    read = Fields(read_json(path), "", str(path), names)
    if read.text("schema") != SCHEMA:
        raise read.error("schema", f"must be {SCHEMA!r}: not a file of this controller")
    found = read.make(Memory)
    for i, row in enumerate(found.measured):
        try:
            Shape.parse(row.shape), ExecutionPlan.parse(row.plan), Span[row.span]
        except (InputError, KeyError):
            raise read.error("measured", "is no configuration", f"[{i}]") from None
        if row.iteration_s <= 0.0:
            raise read.error("measured", "must be above 0", f"[{i}].iteration_s")
    instants = [found.away_s, found.since_s, found.looked_s, *found.last_turn, *found.stops_s]
    for known in found.jobs.values():
        instants += [known.submit_s, known.seen_s, known.start_s, known.stop_s, *known.recent_s]
        instants += [known.first_start_s, known.executed_s, known.gpu_s, known.report_s, known.done]
    if any(known.iteration_s <= 0.0 for known in found.jobs.values()):
        raise read.error("jobs", "is damaged: an iteration must take more than 0 s")
    counts = [found.turns, found.observed, *(known.starts for known in found.jobs.values())]
    if max(map(abs, instants)) > _FURTHEST_S or min(counts) < 0:
        raise read.error(None, "is damaged: it has an impossible instant or count")
    return found


def _fields(one: Any) -> dict[str, Any]:
    """Return the fields of a dataclass without copies, which `dataclasses.asdict` makes."""
    return {own.name: getattr(one, own.name) for own in fields(one)}


def write_memory(folder: Path, memory: Memory) -> None:
    """Write ``jobs.json`` atomically."""
    document = {"schema": SCHEMA, **_fields(memory)}
    text = json.dumps(document, separators=(",", ":"), default=_fields)
    write_atomically(folder / FILE, text + "\n", durable=False)
