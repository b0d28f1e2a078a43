"""Rounds of any size from the twins: cold ones, and steady ones that follow from a decision.

Jobs of ``base`` (seeds 0, 1, ... as many as are needed), 0.625 per GPU, each with a share of its
work done drawn evenly; restarts of 260 s. A cold round has nobody running. A steady round is what
a decision of the one before leaves: one in twenty of the running jobs completes, as many arrive.
A busy round follows from none: seven in ten jobs run, on nodes drawn at random, so that what is
free lies in pieces and gangs have no whole nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

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
    Span,
)
from morph_opt.core.domain.placement import gpus_beside
from morph_opt.inputs.perf.speed import Configuration, SpeedModel
from morph_opt.inputs.traces.registry import load_trace

JOBS_PER_GPU = 0.625
RESTART_S = 260.0
LEFT_SHARE = 0.05
POOL = 4_000
"""Jobs of the twins that are drawn from."""
NODES = {
    "ordinary": A800_NODE,
    "odd": replace(A800_NODE, gpus=6),
    "resources": replace(A800_NODE, cpus=48, host_memory_gib=800.0),
    "busy": A800_NODE,
}
"""Nodes of the first type: those of `base`; of six GPUs, on which jobs start on every number of
them; with half the threads and memory, which then run out before the GPUs; those of `base` again,
of rounds that begin with most jobs running."""

BUSY_SHARE = 0.7
"""Of the jobs, those that run in a busy round."""

BUSY_GPUS = {1: 0.52, 2: 0.26, 4: 0.14, 8: 0.08}
"""GPUs that they are drawn to hold, with the probability of each: nearly all GPUs together."""

TRIES = 40
"""Nodes that are drawn for a part, at most."""

SLOWER = (1.0, 0.62, 0.35)
"""Speeds of the GPU types relative to the first."""


@dataclass(frozen=True)
class Scaled:
    """Speeds on several types: those of the first, slower by a factor per type and model."""

    base: SpeedModel
    types: tuple[NodeType, ...]

    @property
    def name(self) -> str:
        """The base's."""
        return self.base.name

    def models(self) -> Sequence[str]:
        """The base's."""
        return self.base.models()

    def _factor(self, model: str, node_type: NodeType) -> float:
        at = self.types.index(node_type)
        # Models differ in what they gain from the faster types, or all would want the same.
        lean = 0.8 + 0.4 * ((sum(model.encode()) * 7 + at * 13) % 16) / 15
        return 1.0 if at == 0 else SLOWER[at] * lean

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        """Seconds on the first type over the type's factor."""
        seconds = self.base.iteration_s(model, self.types[0], shape, plan, span)
        return None if seconds is None else seconds / self._factor(model, node_type)

    def configurations(
        self, model: str, node_type: NodeType, max_gpus: int, span: Span
    ) -> Sequence[Configuration]:
        """Those of the first type."""
        factor = self._factor(model, node_type)
        rows = self.base.configurations(model, self.types[0], max_gpus, span)
        return [replace(row, iteration_s=row.iteration_s / factor) for row in rows]


def cluster_of(gpus: int, types: int, leaves: int = 1, kind: str = "ordinary") -> Cluster:
    """As many nodes as the GPUs fill, the types in turn, the leaves in blocks."""
    first = NODES[kind]
    kinds = [first]
    for at in range(1, types):
        gpu = replace(first.gpu_type, name=f"T{at}")
        kinds.append(replace(first, name=f"t{at}-{first.gpus}", gpu_type=gpu))
    nodes = gpus // first.gpus
    return Cluster(
        f"{gpus}x{types}",
        tuple(
            Node(f"n{i:06d}", kinds[i % types], leaf=f"leaf-{i * leaves // nodes}")
            for i in range(nodes)
        ),
    )


def speeds_of(cluster: Cluster) -> SpeedModel:
    """The twins' speeds on every type of a cluster."""
    return Scaled(load_trace("base").truth, cluster.node_types)


def arrivals(count: int, draw: np.random.Generator, prefix: str) -> list[JobState]:
    """Waiting jobs with part of their work done, as a queue that has been running for long."""
    pool: list[Job] = [job for seed in range(-(-min(count, POOL) // 400)) for job in _jobs(seed)]
    found = []
    for at, which in enumerate(draw.integers(0, len(pool), count).tolist()):
        job = replace(pool[which], name=f"{prefix}-{at:06d}", submission_s=0.0)
        done = float(job.iterations * 0.9 * draw.random())
        found.append(JobState(job, iterations_done=done, restart_s=RESTART_S))
    return found


@cache
def _jobs(seed: int) -> tuple[Job, ...]:
    return load_trace("base", seed=seed).trace.jobs


def cold_round(
    gpus: int, types: int = 1, leaves: int = 1, seed: int = 0, kind: str = "ordinary"
) -> RoundState:
    """A round in which every job waits, on nodes of one of the kinds of `NODES`."""
    draw = np.random.default_rng((seed, gpus, types))
    jobs = arrivals(int(JOBS_PER_GPU * gpus), draw, "r0")
    return RoundState(0, 0.0, 60.0, cluster_of(gpus, types, leaves, kind), tuple(jobs))


def busy_round(gpus: int, types: int = 1, leaves: int = 1, seed: int = 0) -> RoundState:
    """A round in which `BUSY_SHARE` of the jobs run, fewer where those drawn find no room."""
    state = cold_round(gpus, types, leaves, seed, "busy")
    draw = np.random.default_rng((seed, gpus, types, 1))
    cluster, speeds = state.cluster, speeds_of(state.cluster)
    of_type = [cluster.nodes_of(kind) for kind in cluster.node_types]
    free = [list(range(cluster.node_types[0].gpus)) for _ in cluster.nodes]
    known: dict[tuple[str, int, int], tuple[Configuration, ...]] = {}
    jobs, left = list(state.jobs), round(BUSY_SHARE * len(state.jobs))
    for at in draw.permutation(len(jobs)).tolist():
        if not left:
            break
        job, t = jobs[at].job, int(draw.integers(types))
        size = int(draw.choice(list(BUSY_GPUS), p=list(BUSY_GPUS.values())))
        key = job.model, t, job.cpus_per_gpu
        if key not in known:
            known[key] = _fastest(speeds, job, cluster.node_types[t])
        own = [row for row in known[key] if row.shape.gpus == size]
        row = own[int(draw.integers(len(own)))] if own else None
        nodes = row and _drawn(draw, of_type[t], free, row.shape.parts)
        if row and nodes:
            given = zip(nodes, row.shape.parts, strict=True)
            where = Placement.of({node: [free[node].pop() for _ in range(g)] for node, g in given})
            jobs[at] = replace(jobs[at], running=Assignment(job.name, row.plan, where))
            left -= 1
    return replace(state, jobs=tuple(jobs))


def _drawn(
    draw: np.random.Generator, nodes: Sequence[int], free: list[list[int]], parts: Sequence[int]
) -> list[int]:
    """Different nodes with room for the parts, at random; none if `TRIES` draws of one had none."""
    found: list[int] = []
    for part in parts:
        tried = (nodes[at] for at in draw.integers(0, len(nodes), TRIES).tolist())
        node = next((n for n in tried if n not in found and len(free[n]) >= part), None)
        if node is None:
            return []
        found.append(node)
    return found


def _fastest(speeds: SpeedModel, job: Job, node_type: NodeType) -> tuple[Configuration, ...]:
    """The fastest plan of each shape of few GPUs, of those with which nodes can be filled."""
    best: dict[Shape, Configuration] = {}
    for row in speeds.configurations(job.model, node_type, max(BUSY_GPUS), Span.POD):
        sides = row.side.beside(SideDemand(cpus=job.cpus_per_gpu))
        if gpus_beside(sides, node_type) == node_type.gpus and (
            row.shape not in best or row.iteration_s < best[row.shape].iteration_s
        ):
            best[row.shape] = row
    return tuple(best.values())


def first_round(
    gpus: int, types: int = 1, leaves: int = 1, seed: int = 0, kind: str = "ordinary"
) -> RoundState:
    """The round that a case begins with: a busy one, or one in which every job waits."""
    if kind == "busy":
        return busy_round(gpus, types, leaves, seed)
    return cold_round(gpus, types, leaves, seed, kind)


def round_after(state: RoundState, decided: Allocation, seed: int = 0) -> RoundState:
    """The round that follows: some jobs complete, as many arrive, the others hold what they got."""
    draw = np.random.default_rng((seed, state.index + 1, len(state.jobs)))
    held = decided.by_job()
    stayed = []
    for known in state.jobs:
        running = held.get(known.job.name)
        if running is not None and draw.random() < LEFT_SHARE:
            continue
        fresh = running is not None and running != known.running
        left = RESTART_S - state.interval_s if fresh else 0.0
        stayed.append(replace(known, running=running, restart_left_s=left))
    new = arrivals(len(state.jobs) - len(stayed), draw, f"r{state.index + 1}")
    return replace(state, index=state.index + 1, jobs=(*stayed, *new))
