"""Small speeds, policies and traces for tests; nothing here comes from the policies package."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from morph_opt.core.domain import (
    A800_NODE,
    Allocation,
    Assignment,
    Cluster,
    ExecutionPlan,
    Job,
    NodeType,
    Placement,
    RoundState,
    Shape,
    SideDemand,
    Span,
    Trace,
    partitions,
)
from morph_opt.inputs.perf.speed import Configuration
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.scheduling.policies.base import Decision, Policy

DP = ExecutionPlan.parse("dp")
GC = ExecutionPlan.parse("dp+gc")


@dataclass(frozen=True)
class ToySpeeds:
    """``seconds[model] / gpus`` per iteration, times ``across`` on several nodes.

    Plan ``dp`` runs on every count of ``counts``; ``dp+gc`` too, a quarter slower.
    """

    seconds: Mapping[str, float] = field(default_factory=lambda: {"m": 8.0})
    counts: tuple[int, ...] = (1, 2, 4, 8, 16)
    across: float = 1.5
    side: SideDemand = SideDemand()
    name: str = "toy"

    def models(self) -> Sequence[str]:
        return sorted(self.seconds)

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        del span
        if plan not in (DP, GC) or shape.gpus not in self.counts or shape.nodes > 2:
            return None
        if shape.parts[0] > node_type.gpus:
            return None
        slow = (self.across if shape.nodes > 1 else 1.0) * (1.25 if plan == GC else 1.0)
        return self.seconds[model] * slow / shape.gpus

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        rows = []
        for gpus in self.counts:
            for shape in partitions(gpus, node_type.gpus) if gpus <= max_gpus else ():
                for plan in (DP, GC):
                    seconds = self.iteration_s(model, node_type, shape, plan, span)
                    if seconds is not None:
                        rows.append(Configuration(shape, plan, seconds, self.side))
        return tuple(rows)


def node_type(gpus: int, **other: float) -> NodeType:
    return replace(A800_NODE, name=f"toy-x{gpus}", gpus=gpus, **other)


def cluster(nodes: int, gpus: int, **other: float) -> Cluster:
    return Cluster.uniform(nodes, node_type(gpus, **other))


def job(name: str, at: float = 0.0, iterations: int = 10, gpus: int = 1, **other: object) -> Job:
    return Job(
        name,
        str(other.pop("model", "m")),
        at,
        iterations,
        gpus,
        DP,
        **other,  # type: ignore[arg-type]
    )


def hold(job: str, parts: Mapping[int, Sequence[int]], plan: ExecutionPlan = DP) -> Assignment:
    return Assignment(job, plan, Placement.of(parts))


class Scripted(Policy):
    """Does in round ``k`` what ``script[k]`` says; without an entry everything stays."""

    name = "scripted"

    def __init__(self, script: Mapping[int, Sequence[Assignment]]) -> None:
        self.script = script
        self.seen: list[RoundState] = []

    def decide(self, state: RoundState) -> Decision:
        self.seen.append(state)
        if state.index not in self.script:
            return Decision(state.held)
        return Decision(Allocation(tuple(self.script[state.index])))


def free_gpus(state: RoundState, kept: Sequence[Assignment]) -> dict[int, list[int]]:
    """Free GPU indices of the nodes on which something may be placed."""
    free = {
        index: list(range(node.type.gpus))
        for index, node in enumerate(state.cluster.nodes)
        if index not in state.unavailable
    }
    for assignment in kept:
        for node, gpus in assignment.placement.parts:
            if node in free:
                free[node] = [gpu for gpu in free[node] if gpu not in gpus]
    return free


def first_fit(job: Job, gpus: int, free: dict[int, list[int]]) -> Assignment | None:
    """The job on the first node with enough free GPUs, which are then taken."""
    for node, left in free.items():
        if len(left) >= gpus:
            free[node] = left[gpus:]
            return hold(job.name, {node: left[:gpus]}, job.requested_plan)
    return None


class Fifo(Policy):
    """First come, first served at the requested size, later jobs may pass."""

    name = "toy-fifo"

    def __init__(self, pause_s: float = 0.0) -> None:
        self._pause_s = pause_s

    def decide(self, state: RoundState) -> Decision:
        time.sleep(self._pause_s)
        kept = [s.running for s in state.jobs if s.running is not None]
        free = free_gpus(state, kept)
        for waiting in state.jobs:
            if waiting.running is None:
                started = first_fit(waiting.job, waiting.job.requested_gpus, free)
                if started is not None:
                    kept.append(started)
        return Decision(Allocation(tuple(kept)))


class Shuffler(Policy):
    """Keeps, preempts, resizes and starts jobs at random, always within the cluster.

    With ``HANGS_AFTER`` in the environment it decides so many rounds and then hangs, so that no
    end of it from outside comes too late.
    """

    name = "shuffler"

    def __init__(self, seed: int, keep: float = 0.7, pause_s: float = 0.0) -> None:
        self._seed = seed
        self._keep = keep
        self._pause_s = pause_s
        self._left = int(os.environ.get("HANGS_AFTER", "-1"))

    def decide(self, state: RoundState) -> Decision:
        while self._left == 0:
            time.sleep(0.01)
        self._left -= 1
        time.sleep(self._pause_s)
        draw = random.Random(f"{self._seed}/{state.index}")
        running = [s.running for s in state.jobs if s.running is not None]
        kept = [a for a in running if draw.random() < self._keep]
        free = free_gpus(state, kept)
        names = {a.job for a in kept}
        others = [s.job for s in state.jobs if s.job.name not in names]
        draw.shuffle(others)
        for other in others:
            started = first_fit(other, draw.choice((1, 2, 4)), free)
            if started is not None and draw.random() < 0.9:
                kept.append(started)
        return Decision(Allocation(tuple(kept)))


def random_trace(seed: int, jobs: int, span_s: int = 3600, iterations: int = 200) -> Trace:
    draw = random.Random(seed)
    return Trace.of(
        f"toy-{seed}",
        [
            job(
                f"j{i}",
                float(draw.randint(0, span_s)),
                draw.randint(1, iterations),
                draw.choice((1, 1, 2, 4)),
                cpus_per_gpu=2,
                guaranteed=draw.random() < 0.2,
            )
            for i in range(jobs)
        ],
    )


# --- for command lines, by import path ------------------------------------------------------


def trace(argument: str, *, seed: int) -> LoadedTrace:
    """``tests.engine.toys:trace/40``: forty random jobs."""
    return LoadedTrace(
        random_trace(seed, int(argument or 12)), ToySpeeds(), "file", "toy trace of the tests"
    )


def make_fifo(belief: object, options: object) -> Fifo:
    del belief, options
    return Fifo()


def make_shuffler(belief: object, options: object) -> Shuffler:
    del belief, options
    return Shuffler(7, pause_s=0.004)


def make_breaker(belief: object, options: object) -> Scripted:
    """Gives GPU 0 of node 0 to two jobs as soon as there are two."""
    del belief, options

    class Breaker(Scripted):
        name = "breaker"

        def decide(self, state: RoundState) -> Decision:
            pair = [hold(s.job.name, {0: [0]}) for s in state.jobs[:2]]
            return Decision(Allocation(tuple(pair)))

    return Breaker({})


def make_lazy(belief: object, options: object) -> Scripted:
    """Never starts anything."""
    del belief, options
    return Scripted({})


Maker = Callable[[object, object], object]
