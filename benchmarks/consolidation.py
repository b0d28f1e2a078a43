"""Servers emptied on a large aged cluster: ``python -m benchmarks.consolidation``.

The cluster has the published servers of Alibaba's trace of spot GPUs: 4,278 with 10,412 GPUs
(``alibaba/clusterdata`` @ 7a6c496, ``cluster-trace-v2026-spot-gpu/node_info_df.csv``, counted). Its
jobs are drawn from the published sizes and run times of Philly (the trace ``philly-twin``) and were
served for 30 days in order of arrival, each that fits (the rule of ``fifo:skip``, at every arrival
and completion), on the GPU type that the job names, as jobs of that trace do: a type that can hold
it, drawn by its GPUs. Each part is on the fullest server that it fits on.

Then servers of 8 GPUs are to be emptied, by the least loss and by two heuristics:

``workloads``
    one workload at a time, cheapest first: the cheapest job that fits on a fuller server moves
    there, again and again, until enough servers are empty;
``servers``
    one server at a time, cheapest first: its jobs, the largest first, each move to the fullest
    server that has room and is not to be emptied; a server with a job that fits nowhere is left.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    GpuType,
    Job,
    JobState,
    Node,
    NodeType,
    Placement,
    Range,
    RoundState,
    Shape,
)
from morph_opt.core.domain.units import HOUR_S
from morph_opt.core.table import Table
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.moves.answer import Moves
from morph_opt.moves.api import answer_to
from morph_opt.moves.pose import loss_gpu_s
from morph_opt.moves.question import NODES, SLOTS, Freed, Question
from morph_opt.round.snapshot import Snapshot
from morph_opt.round.speeds import SpeedRow, SpeedTable
from morph_opt.scheduling.solvers.outcome import Limits

SERVERS = (
    ("A10", 1, 2494),
    ("GPU-series-1", 1, 902),
    ("GPU-series-1", 4, 10),
    ("GPU-series-1", 8, 77),
    ("A100-SXM4-80GB", 8, 432),
    ("A800-SXM4-80GB", 8, 22),
    ("H800", 8, 219),
    ("GPU-series-2", 8, 122),
)
"""GPU type, GPUs of a server, and number of servers."""
DAY_S = 24.0 * HOUR_S
DAYS = 30
RESTART_S, CHECKPOINT_S = 300.0, 1800.0
DP = ExecutionPlan.parse("dp")


def cluster() -> Cluster:
    """Return the 4,278 servers."""
    nodes = []
    for name, gpus, count in SERVERS:
        kind = NodeType(f"{name} x{gpus}", GpuType(name, 80.0), gpus, 192, 1000.0, 400.0, 100.0)
        nodes += [Node(f"{name}-x{gpus}-{at:04d}", kind) for at in range(count)]
    return Cluster("4,278 servers", tuple(nodes))


@dataclass
class Servers:
    """Free GPUs of servers, best fit first."""

    where: Cluster
    free: list[set[int]] = field(init=False)
    by_kind: dict[NodeType, list[set[int]]] = field(init=False)

    def __post_init__(self) -> None:
        nodes = self.where.nodes
        self.free = [set(range(node.type.gpus)) for node in nodes]
        self.by_kind = {
            kind: [set() for _ in range(kind.gpus + 1)] for kind in self.where.node_types
        }
        for at, node in enumerate(nodes):
            self.by_kind[node.type][node.type.gpus].add(at)

    def take(self, node: int, count: int) -> tuple[int, ...]:
        """Take the lowest free GPUs of a server."""
        taken = tuple(sorted(self.free[node])[:count])
        self._change(node, self.free[node] - set(taken))
        return taken

    def give(self, placement: Placement) -> None:
        """Free the GPUs of a placement."""
        for node, gpus in placement.parts:
            self._change(node, self.free[node] | set(gpus))

    def _change(self, node: int, free: set[int]) -> None:
        counted = self.by_kind[self.where.nodes[node].type]
        counted[len(self.free[node])].discard(node)
        counted[len(free)].add(node)
        self.free[node] = free

    def start(self, name: str, gpus: int) -> Placement | None:
        """Place a job on a GPU type, each part on the fullest server that it fits on."""
        for kind, counted in self.by_kind.items():
            whole_nodes, rest = divmod(gpus, kind.gpus)
            if kind.gpu_type.name != name or len(counted[kind.gpus]) < whole_nodes:
                continue
            if whole_nodes > 1 and kind.gpus < 8:
                continue
            nodes = sorted(counted[kind.gpus])[:whole_nodes]
            spare = None
            if rest:
                spare = next(
                    (
                        min(some)
                        for count in range(rest, kind.gpus + 1)
                        if (some := counted[count] - set(nodes))
                    ),
                    None,
                )
                if spare is None:
                    continue
            parts = {node: self.take(node, kind.gpus) for node in nodes}
            if spare is not None:
                parts[spare] = self.take(spare, rest)
            return Placement.of(parts)
        return None


def aged(load: float, days: float = DAYS, seed: int = 0) -> Snapshot:
    """Return the state after days of ``fifo:skip`` under a load, given as a share of all GPUs."""
    where = cluster()
    gpus = where.gpus
    mean_gpu_s = 18006.1 * 1.928  # of Philly's jobs: run time times GPUs, published means
    count = int(load * gpus * days * DAY_S / mean_gpu_s)
    trace = load_trace("philly-twin", seed=seed, jobs=count, gpus=gpus // 8 * 8, days=days)
    servers = Servers(where)
    ends: list[tuple[float, int]] = []
    held: dict[int, tuple[float, Placement]] = {}
    waiting: dict[tuple[str, int], list[int]] = {}
    jobs, draw = trace.trace.jobs, random.Random(seed)
    types: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for node in where.nodes:
        for alone in (True, False):
            if alone or node.type.gpus == 8:
                mine = types[alone]
                mine[node.type.gpu_type.name] = (
                    mine.get(node.type.gpu_type.name, 0) + node.type.gpus
                )

    def serve(now_s: float) -> None:
        # Jobs of one size fit alike, so only the first of each size is tried, the earliest first.
        heads = [(queue[0], size) for size, queue in waiting.items() if queue]
        heapq.heapify(heads)
        while heads:
            job, size = heapq.heappop(heads)
            placement = servers.start(*size)
            if placement is None:
                continue
            waiting[size].pop(0)
            held[job] = now_s, placement
            heapq.heappush(ends, (now_s + RESTART_S + jobs[job].iterations, job))
            if waiting[size]:
                heapq.heappush(heads, (waiting[size][0], size))

    until_s = days * DAY_S
    for at, job in enumerate(jobs):
        if job.submission_s > until_s:
            break
        while ends and ends[0][0] <= job.submission_s:
            end_s, gone = heapq.heappop(ends)
            servers.give(held.pop(gone)[1])
            serve(end_s)
        able = types[job.requested_gpus == 1]
        name = draw.choices(list(able), list(able.values()))[0]
        waiting.setdefault((name, job.requested_gpus), []).append(at)
        serve(job.submission_s)
    while ends and ends[0][0] <= until_s:
        end_s, gone = heapq.heappop(ends)
        servers.give(held.pop(gone)[1])
        serve(end_s)
    shapes = {placement.shape for _, placement in held.values()}
    speeds = SpeedTable(
        [
            SpeedRow(shape.label, kind.name, Configuration(shape, DP, 1.0))
            for shape in sorted(shapes)
            for kind in where.node_types
            if shape.parts[0] <= kind.gpus
        ]
    )
    states = tuple(
        _state(jobs[at], start_s, placement) for at, (start_s, placement) in held.items()
    )
    return Snapshot(RoundState(1, until_s, 600.0, where, states), speeds)


def _state(job: Job, start_s: float, placement: Placement) -> JobState:
    """Return a running job."""
    shape: Shape = placement.shape
    named = Job(job.name, shape.label, job.submission_s, job.iterations, shape.gpus, DP)
    running = Assignment(job.name, DP, placement)
    return JobState(
        named, running=running, restart_s=RESTART_S, first_start_s=start_s, last_start_s=start_s
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """Moves of a heuristic: servers emptied, jobs moved, GPU-seconds lost, GPUs moved."""

    emptied: int
    moves: int
    loss_gpu_s: float


class Greedy:
    """Heuristics that empty servers of 8 GPUs."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._state = snapshot.state
        self._nodes = [
            at for at, node in enumerate(snapshot.state.cluster.nodes) if node.type.gpus == 8
        ]
        kinds = snapshot.state.cluster.nodes
        self._free = dict.fromkeys(self._nodes, 8)
        self._jobs: dict[int, dict[str, JobState]] = {at: {} for at in self._nodes}
        self._single: dict[str, JobState] = {}
        for known in snapshot.state.jobs:
            assert known.running is not None
            for node, gpus in known.running.placement.parts:
                if node in self._free:
                    self._free[node] -= len(gpus)
                    self._jobs[node][known.job.name] = known
            if (
                len(known.running.placement.nodes) == 1
                and known.running.placement.nodes[0] in self._free
            ):
                self._single[known.job.name] = known
        self._kind = {at: kinds[at].type for at in self._nodes}
        self._loss = {
            name: loss_gpu_s(known, self._state, CHECKPOINT_S)
            for name, known in self._single.items()
        }

    def _empty(self) -> int:
        return sum(free == 8 for free in self._free.values())

    def _best(self, source: int, gpus: int, above: int, barred: set[int]) -> int | None:
        """Return the fullest server of a type with room and fewer free GPUs than ``above``."""
        fits = [
            at
            for at in self._nodes
            if at != source and at not in barred and self._kind[at] == self._kind[source]
            and gpus <= self._free[at] < above
        ]  # fmt: skip
        return min(fits, key=lambda at: (self._free[at], at), default=None)

    def _move(self, name: str, source: int, target: int) -> None:
        known, gpus = self._single[name], self._gpus(name)
        self._free[source] += gpus
        self._free[target] -= gpus
        del self._jobs[source][name]
        self._jobs[target][name] = known

    def _gpus(self, name: str) -> int:
        running = self._single[name].running
        assert running is not None
        return running.placement.gpus

    def workloads(self, wanted: int) -> Cost:
        """Move the cheapest workload that fits on a fuller server, again and again."""
        at = {
            name: node for node, held in self._jobs.items() for name in held if name in self._single
        }
        moves, lost = 0, 0.0
        order = sorted(self._single, key=lambda name: (self._loss[name], name))
        moved: set[str] = set()
        while self._empty() < wanted:
            for name in order:
                source = at[name]
                target = self._best(source, self._gpus(name), self._free[source] + 1, set())
                if name in moved or target is None or self._free[target] == 8:
                    continue
                self._move(name, source, target)
                at[name] = target
                moved.add(name)
                moves, lost = moves + 1, lost + self._loss[name]
                break
            else:
                break
        return Cost(self._empty(), moves, lost)

    def servers(self, wanted: int) -> Cost:
        """Empty the cheapest server, again and again."""
        moves, lost, emptied = 0, 0.0, self._empty()
        barred: set[int] = {at for at, free in self._free.items() if free == 8}
        able = [
            at for at in self._nodes if self._jobs[at] and set(self._jobs[at]) <= set(self._single)
        ]
        for source in sorted(able, key=lambda at: (sum(self._loss[n] for n in self._jobs[at]), at)):
            if emptied >= wanted:
                break
            done: list[tuple[str, int]] = []
            for name in sorted(self._jobs[source], key=lambda n: (-self._gpus(n), n)):
                target = self._best(source, self._gpus(name), 9, barred)
                if target is None:
                    break
                self._move(name, source, target)
                done.append((name, target))
            if self._jobs[source]:
                for name, target in done:
                    self._move(name, target, source)
                continue
            barred.add(source)
            emptied += 1
            moves, lost = moves + len(done), lost + sum(self._loss[name] for name, _ in done)
        return Cost(emptied, moves, lost)


def asked(wanted: int) -> Question:
    """Return the question for so many empty servers of 8 GPUs."""
    return Question(free=Freed(wanted, SLOTS, 8, inside=NODES), checkpoint_s=CHECKPOINT_S)


def rows(snapshot: Snapshot, more: list[int], limits: Limits) -> Iterator[tuple[float, ...]]:
    """Yield a row per number of servers to empty beyond those that are."""
    idle = Greedy(snapshot)._empty()
    for extra in more:
        wanted = idle + extra
        began_s, cpu_s = time.perf_counter(), time.process_time()
        answer: Moves = answer_to(snapshot, asked(wanted), limits)
        took_s, used_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        if not answer.possible:
            continue
        workloads, servers = Greedy(snapshot).workloads(wanted), Greedy(snapshot).servers(wanted)
        yield (
            extra, answer.moved, answer.loss_gpu_s / HOUR_S, answer.gap, used_s, took_s,
            workloads.emptied - idle, workloads.moves, workloads.loss_gpu_s / HOUR_S,
            servers.emptied - idle, servers.moves, servers.loss_gpu_s / HOUR_S,
        )  # fmt: skip


HEADER = (
    "emptied", "moves", "GPU-h lost", "gap", "CPU s", "wall s",
    "workloads: emptied", "moves ", "GPU-h lost ",
    "servers: emptied", "moves  ", "GPU-h lost  ",
)  # fmt: skip


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.consolidation", description=__doc__)
    parser.add_argument("--load", type=Number(Range(0.01, 2.0)), default=0.3, help="share (0.3)")
    parser.add_argument("--days", type=Number(Range(0.1, 365.0)), default=float(DAYS), help="(30)")
    parser.add_argument("--gap", type=Number(Range(0.0, 1.0)), default=0.01, help="(0.01)")
    parser.add_argument("--seed", type=whole(0, 10**6), default=0, help="seed of the jobs (0)")
    parser.add_argument(
        "--seeds", type=whole(2, 100), metavar="N", help="savings over N seeds from this on"
    )
    return parser


def main() -> int:
    """Print the table."""
    return run_command(make_parser(), _run, None)


WANTED = [5, 10, 20, 24]
SAVED = (
    "emptied", "states", "saved: median", "least", "most", "largest gap",
    "one server at a time: median",
)  # fmt: skip


def savings(given: argparse.Namespace) -> Iterator[tuple[float, ...]]:
    """Yield, for each number of servers, what proven moves lose less than the heuristics do, in %.

    States in which so many cannot be emptied are left out.
    """
    found: dict[float, list[tuple[float, float, float]]] = {}
    for seed in range(given.seed, given.seed + given.seeds):
        snapshot = aged(given.load, given.days, seed)
        for row in rows(snapshot, WANTED, Limits(given.gap, 60.0)):
            extra, _, own, gap, _, _, full, _, lost, full_2, _, lost_2 = row
            if full == full_2 == extra:
                both = 100.0 * (1.0 - own / lost), 100.0 * (1.0 - own / lost_2)
                found.setdefault(extra, []).append((*both, gap))
    for extra, each in found.items():
        saved = [one[0] for one in each]
        yield (
            extra, len(each), median(saved), min(saved), max(saved), max(one[2] for one in each),
            median(one[1] for one in each),
        )  # fmt: skip


def _run(given: argparse.Namespace) -> int:
    if given.seeds is not None:
        shown = dict.fromkeys((n for n in SAVED if "median" in n or n in ("least", "most")), ".0f")
        print(Table(SAVED, list(savings(given)), "r", shown | {"largest gap": ".4f"}))
        return 0
    snapshot = aged(given.load, given.days, given.seed)
    held = snapshot.state.held
    print(f"{len(held.assignments):,} jobs on {held.gpus:,} GPUs, "
          f"{Greedy(snapshot)._empty()} servers of 8 GPUs empty")  # fmt: skip
    found = list(rows(snapshot, WANTED, Limits(given.gap, 60.0)))
    formats = dict.fromkeys((n for n in HEADER if "GPU-h" in n), ",.1f")
    print(Table(HEADER, found, "r", formats | {"gap": ".4f", "CPU s": ".1f", "wall s": ".1f"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
