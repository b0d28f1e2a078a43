"""Small worlds for policies: speeds, clusters and states that fit into a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.core.domain import (
    A800_NODE,
    Allocation,
    Assignment,
    Cluster,
    ExecutionPlan,
    Job,
    JobState,
    Node,
    NodeType,
    Placement,
    RoundState,
    Shape,
    SideDemand,
    partitions,
)
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.solvers.base import Capabilities
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop

DP = ExecutionPlan.parse("dp")
GC = ExecutionPlan.parse("dp+gc")
GPU = A800_NODE.gpu_type.name
EXACT = Limits(gap=0.0, time_s=600.0)


Times = Mapping[str, Mapping[str, float]]


def speeds(rows: Times, side: SideDemand | None = None) -> MeasuredTable:
    """``{"m": {"4": 2.0, "2+2 dp+gc": 3.0}}``: seconds per iteration by shape and plan."""
    return MeasuredTable(
        Measurement(
            model,
            GPU,
            Shape.parse(label.partition(" ")[0]),
            ExecutionPlan.parse(label.partition(" ")[2] or "dp"),
            seconds,
            side or SideDemand(),
        )
        for model, times in rows.items()
        for label, seconds in times.items()
    )


LINEAR = speeds({"m": {"1": 8.0, "2": 4.0, "4": 2.0, "8": 1.0}})
"""One model that is twice as fast on twice the GPUs, inside a node, in plain data parallelism."""


def cluster(*gpus: int, **other: Any) -> Cluster:
    """One node per count; nodes of equal count are of one type."""
    kinds = {size: replace(A800_NODE, name=f"x{size}", gpus=size, **other) for size in gpus}
    return Cluster("toy", tuple(Node(f"n{i}", kinds[size]) for i, size in enumerate(gpus)))


def job(name: str, gpus: int = 1, **other: object) -> Job:
    """A job of model ``m`` with 100 iterations, requested in ``dp``."""
    given = {"model": "m", "submission_s": 0.0, "iterations": 100, "requested_plan": DP, **other}
    return Job(name=name, requested_gpus=gpus, **given)  # type: ignore[arg-type]


def queued(name: str, gpus: int = 1, **other: object) -> JobState:
    """The job waits."""
    return JobState(job(name, gpus, **other), restart_s=30.0)


def running(
    name: str,
    parts: Mapping[int, Sequence[int]],
    gpus: int | None = None,
    *,
    plan: ExecutionPlan = DP,
    done: float = 0.0,
    **other: object,
) -> JobState:
    """The job holds these GPUs by node."""
    placement = Placement.of(parts)
    return JobState(
        job(name, placement.gpus if gpus is None else gpus, **other),
        iterations_done=done,
        running=Assignment(name, plan, placement),
        restart_s=30.0,
    )


def state(where: Cluster, *jobs: JobState, closed: Iterable[int] = ()) -> RoundState:
    """A round of a minute."""
    return RoundState(3, 180.0, 60.0, where, jobs, frozenset(closed))


def grants(allocation: Allocation) -> dict[str, dict[int, tuple[int, ...]]]:
    """GPUs by node and job."""
    return {a.job: dict(a.placement.parts) for a in allocation.assignments}


def counts(allocation: Allocation) -> dict[str, int]:
    """Number of GPUs by job."""
    return {a.job: a.placement.gpus for a in allocation.assignments}


def verify(before: RoundState, after: Allocation) -> None:
    """An allocation is sound: no GPU twice, nothing new on a closed node, stays untouched."""
    nodes = before.cluster.nodes
    held = Counter(
        (node, gpu) for a in after.assignments for node, gpus in a.placement.parts for gpu in gpus
    )
    assert not [spot for spot, times in held.items() if times > 1]
    assert all(0 <= gpu < nodes[node].type.gpus for node, gpu in held)
    known = {s.job.name: s.running for s in before.jobs}
    for a in after.assignments:
        old = known[a.job]
        if old is not None and old.plan == a.plan and _shape(old) == _shape(a):
            assert a == old, "the same counts on the same nodes are a stay on the same GPUs"
        if a != old:
            assert not set(a.placement.nodes) & before.unavailable
            assert len({nodes[node].type for node in a.placement.nodes}) == 1


def _shape(held: Assignment) -> list[tuple[int, int]]:
    return [(node, len(gpus)) for node, gpus in held.placement.parts]


def random_world(draw: np.random.Generator, rows: int = 5) -> tuple[MeasuredTable, RoundState]:
    """A small state with running and queued jobs, and speeds for two models; brute-forceable.

    ``rows`` is the largest number of configurations of a model.
    """
    kinds = [_node_type(size) for size in draw.choice([1, 2, 4, 8], 2, replace=False).tolist()]
    count = int(draw.integers(1, 4))
    where = Cluster(
        "random", tuple(Node(f"n{i}", kinds[int(draw.integers(2))]) for i in range(count))
    )
    table = _random_table(draw, where, rows)
    free = {index: list(range(node.type.gpus)) for index, node in enumerate(where.nodes)}
    jobs = tuple(_random_job(draw, f"j{i}", table, where, free) for i in range(draw.integers(1, 5)))
    closed = [i for i in range(count) if draw.random() < 0.15]
    return table, state(where, *jobs, closed=closed)


def _node_type(gpus: int) -> NodeType:
    return replace(A800_NODE, name=f"x{gpus}", gpus=gpus)


def _random_table(draw: np.random.Generator, where: Cluster, most: int) -> MeasuredTable:
    largest = max(node.type.gpus for node in where.nodes)
    rows: list[Measurement] = []
    for model in ("m", "w"):
        seen = set()
        for _ in range(int(draw.integers(1, most + 1))):
            shapes = partitions(int(draw.integers(1, 2 * largest + 1)), largest)
            shape = shapes[int(draw.integers(min(4, len(shapes))))]
            plan = DP if draw.random() < 0.7 else GC
            if (shape, plan) not in seen:
                seen.add((shape, plan))
                seconds = float(draw.uniform(0.5, 1.5)) * 8 / shape.gpus**0.8
                rows.append(Measurement(model, GPU, shape, plan, seconds))
    return MeasuredTable(rows)


def _random_job(
    draw: np.random.Generator,
    name: str,
    table: MeasuredTable,
    where: Cluster,
    free: dict[int, list[int]],
) -> JobState:
    model = str(draw.choice(["m", "w"]))
    waiting = JobState(
        Job(
            name,
            model,
            0.0,
            int(draw.integers(1, 1000)),
            int(draw.choice([1, 2, 4])),
            DP,
            guaranteed=bool(draw.random() < 0.4),
            weight=float(draw.choice([1.0, 2.0])),
        ),
        restart_s=float(draw.uniform(0.0, 200.0)),
    )
    kind = where.node_types[int(draw.integers(len(where.node_types)))]
    rows = table.configurations(
        model, kind, where.gpus, topology_of(where).span(range(len(where.nodes)))
    )
    if not rows or draw.random() < 0.4:
        return waiting
    row = rows[int(draw.integers(len(rows)))]
    parts: dict[int, list[int]] = {}
    for part in row.shape.parts:
        fits = [n for n in where.nodes_of(kind) if n not in parts and len(free[n]) >= part]
        if not fits:
            return waiting
        node = int(draw.choice(fits))
        parts[node] = sorted(draw.permutation(free[node])[:part].tolist())
    for node, gpus in parts.items():
        free[node] = [gpu for gpu in free[node] if gpu not in gpus]
    held = Assignment(name, row.plan, Placement.of(parts))
    left_s = min(float(draw.uniform(0.0, 100.0)), waiting.restart_s)
    return replace(waiting, running=held, restart_left_s=left_s)


@dataclass
class FakeSolver:
    """HiGHS behind a curtain: after ``honest`` solves it answers as ``lie`` says.

    Parameters
    ----------
    lie
        ``"nothing"``, ``"error"``, ``"stopped"`` (a poor incumbent, no proof), ``"boast"`` (an
        objective that the point does not have).
    honest
        Solves that are passed on untouched before that.
    """

    lie: str
    honest: int = 0
    calls: int = 0
    name: str = "fake"
    capabilities: Capabilities = field(default_factory=Capabilities)

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        self.calls += 1
        if self.calls <= self.honest:
            return HighsSolver().solve(model, limits, start)
        if self.lie == "nothing":
            return Outcome(Status.NO_SOLUTION, Stop.TIME_LIMIT, "fake", bound=123.0)
        if self.lie == "error":
            return Outcome(Status.ERROR, Stop.FAILED, "fake", message="crashed")
        best = HighsSolver().solve(model, limits, start)
        if best.x is None:
            return best
        if self.lie == "boast":
            return replace(best, objective=1.5 * best.objective + 1, bound=1.5 * best.bound + 1)
        worst = HighsSolver().solve(model.with_objective(-model.cost), limits, start)
        assert worst.x is not None
        value = model.objective(worst.x)
        gap = (best.bound - value) / max(1e-12, abs(value))
        return replace(
            worst,
            status=Status.FEASIBLE,
            stop=Stop.TIME_LIMIT,
            objective=value,
            bound=best.bound,
            gap=gap,
        )


class Watched(Policy):
    """Decides, and has another one decide after it had only observed.

    Parameters
    ----------
    make
        The policy, anew at every call.
    """

    remembers = True

    def __init__(self, make: Callable[[], Any]) -> None:
        self._one, self._other = make(), make()
        self.name, self.rounds = self._one.name, 0

    def decide(self, state: RoundState) -> Decision:
        self.rounds += 1
        decision = self._one.decide(state)
        if self.rounds < 15:
            self._other.observe(state)
        else:
            again = self._other.decide(state).allocation
            assert again == decision.allocation
            assert [held.partner for held in again.assignments] == [
                held.partner for held in decision.allocation.assignments
            ]
        return decision
