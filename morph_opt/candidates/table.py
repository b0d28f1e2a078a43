"""Candidates: from the round's snapshot to the columnar `RoundProblem`.

The configurations of a (model, node class) do not change from round to round, so they are
enumerated, pruned and laid out as arrays once; a round only concatenates slices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.linear_model import Bools, Floats, Ints
from formulations.round.pairs import PairTable
from formulations.round.tables import (
    CandidateTable,
    HoldTable,
    JobTable,
    NodeTable,
    RoundProblem,
    Scope,
)
from morph_opt.candidates.dominance import Scoped, side_of, undominated, with_strictness
from morph_opt.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    Job,
    JobState,
    NodeType,
    RoundState,
    Shape,
    Span,
)
from morph_opt.perf.memory.filter import MemoryFilter
from morph_opt.perf.speed import Configuration, SpeedModel


@dataclass(frozen=True, slots=True)
class ModelSlice:
    """All undominated configurations of one model with one CPU demand, over all node classes."""

    model: str
    rows: tuple[Scoped, ...]
    node_class: Ints
    scope: Ints
    strict: Bools
    iteration_s: Floats
    gpus: Ints
    part_count: Ints
    part_gpus: Ints
    side: Floats


@dataclass(frozen=True, slots=True)
class RoundView:
    """A problem together with what its indices mean.

    Parameters
    ----------
    problem
        The tables.
    states
        Job of each index.
    slices
        Per job its slice; candidate k of job j is row ``k - offset[j]`` of it.
    offset
        First candidate of each job, shape (J + 1,); pairs stand behind the last.
    """

    problem: RoundProblem
    states: tuple[JobState, ...]
    slices: tuple[ModelSlice, ...]
    offset: Ints

    def configuration(self, job: int, candidate: int) -> Configuration:
        """The configuration in which a job starts in an option."""
        if candidate >= self.offset[-1]:
            members = self.problem.options.members
            candidate = int(members.alone[members.of(candidate, job)])
        return self.slices[job].rows[candidate - int(self.offset[job])].row


def scopes_of(cluster: Cluster, node_type: NodeType) -> tuple[Scope, ...]:
    """Scopes in which placements of one class on several nodes differ, tightest first."""
    nodes = [cluster.nodes[index] for index in cluster.nodes_of(node_type)]
    domains = [node.nvlink_domain for node in nodes if node.nvlink_domain is not None]
    found = [Scope.NVLINK] if len(set(domains)) < len(domains) else []
    found.append(Scope.LEAF)
    if len({node.leaf for node in nodes}) > 1:
        found.append(Scope.POD)
    return tuple(found)


class CandidateBuilder:
    """Builds the `RoundProblem` of a state under a belief about speed; caches per model.

    Parameters
    ----------
    belief
        Speeds that the policy goes by; plans that do not fit in memory and tensor-parallel groups
        that leave their NVLink domain are taken out (`MemoryFilter` keeps the reasons).
    prune
        Drop dominated configurations (never changes an optimum, see
        `morph_opt.candidates.dominance`).
    """

    def __init__(self, belief: SpeedModel, *, prune: bool = True) -> None:
        self.belief = MemoryFilter(belief)
        self._prune = prune
        self._cluster: Cluster | None = None
        self._slices: dict[tuple[str, int], ModelSlice] = {}
        self._speeds: dict[tuple[str, NodeType, Shape, ExecutionPlan, Span], float | None] = {}
        self._requests: dict[tuple[str, int, ExecutionPlan], float] = {}
        self._sides: dict[
            tuple[str, int, NodeType, Shape, ExecutionPlan, Span], tuple[float, float, float]
        ] = {}
        self._nodes: NodeTable | None = None
        self._configurations: dict[tuple[str, NodeType], list[Scoped]] = {}

    def view(self, state: RoundState) -> RoundView:
        """Tables of a round."""
        self._use(state.cluster)
        states = state.jobs
        slices = tuple(self.slice_of(s.job) for s in states)
        counts = np.asarray([s.gpus.size for s in slices], dtype=np.int64)
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        assert self._nodes is not None
        is_open = np.ones(self._nodes.count, dtype=bool)
        is_open[list(state.unavailable)] = False
        problem = RoundProblem(
            jobs=self._jobs(states),
            candidates=_concatenate(slices, counts),
            nodes=replace(self._nodes, open=is_open),
            holds=self._holds(states),
            interval_s=state.interval_s,
            pairs=PairTable(sharing=_sharing(states)),
        )
        return RoundView(problem, states, slices, offset)

    def request_iteration_s(self, job: Job, cluster: Cluster) -> float:
        """Seconds per iteration of the requested GPUs and plan in their tightest shape.

        Where the request itself cannot run anywhere (the artifact has such rows), the slowest
        configuration that can run stands in, so that a speed relative to it is at least 1.
        """
        self._use(cluster)
        key = (job.model, job.requested_gpus, job.requested_plan)
        if key not in self._requests:
            rows = [
                scoped.row
                for node_type in cluster.node_types
                for scoped in self.configurations(job.model, node_type)
            ]
            asked = [
                (row.shape.nodes, row.iteration_s)
                for row in rows
                if row.plan == job.requested_plan and row.shape.gpus == job.requested_gpus
            ]
            slowest = max((row.iteration_s for row in rows), default=1.0)
            self._requests[key] = min(asked)[1] if asked else slowest
        return self._requests[key]

    def configurations(self, model: str, node_type: NodeType) -> list[Scoped]:
        """Configurations that fit the nodes of a class, each with its scope, unpruned.

        One per scope: a placement has the row of its own span, or does not exist.
        """
        key = (model, node_type)
        if key not in self._configurations:
            assert self._cluster is not None
            cluster = self._cluster
            nodes = len(cluster.nodes_of(node_type))
            found: list[Scoped] = []
            for scope in scopes_of(cluster, node_type):
                rows = self.belief.configurations(
                    model, node_type, nodes * node_type.gpus, Span(int(scope))
                )
                first = not found
                found += [
                    Scoped(Scope.NODE if row.shape.nodes == 1 else scope, row)
                    for row in rows
                    if row.shape.nodes <= nodes and (first or row.shape.nodes > 1)
                ]
            self._configurations[key] = found
        return self._configurations[key]

    def speed(self, job: Job, held: Assignment, cluster: Cluster) -> float | None:
        """Believed seconds per iteration of a running assignment."""
        node_type = cluster.nodes[held.placement.nodes[0]].type
        span = cluster.span(held.placement.nodes)
        shape = held.placement.shape
        key = (job.model, node_type, shape, held.plan, span)
        if key not in self._speeds:
            self._speeds[key] = self.belief.iteration_s(
                job.model, node_type, shape, held.plan, span
            )
        return self._speeds[key]

    def all_of(self, job: Job, cluster: Cluster) -> ModelSlice:
        """Configurations of a job on a cluster, whatever the round."""
        self._use(cluster)
        return self.slice_of(job)

    def slice_of(self, job: Job) -> ModelSlice:
        """Cached configurations of the job's model with its CPU demand."""
        key = (job.model, job.cpus_per_gpu)
        if key not in self._slices:
            if self._cluster is None:
                raise ValueError("the builder has not seen a cluster yet")
            self._slices[key] = self._make_slice(job.model, job.cpus_per_gpu, self._cluster)
        return self._slices[key]

    def _use(self, cluster: Cluster) -> None:
        if cluster is self._cluster:
            return
        self._cluster = cluster
        for cache in (
            self._slices,
            self._requests,
            self._speeds,
            self._sides,
            self._configurations,
        ):
            cache.clear()
        self._nodes = node_table(cluster)

    def _make_slice(self, model: str, cpus_per_gpu: int, cluster: Cluster) -> ModelSlice:
        rows: list[tuple[int, Scoped]] = []
        for index, node_type in enumerate(cluster.node_types):
            room = (node_type.cpus, node_type.host_memory_gib, node_type.rdma_gb_per_s)
            fitting = [
                scoped
                for scoped in self.configurations(model, node_type)
                if all(
                    scoped.row.shape.parts[0] * need <= limit * (1 + 1e-9)
                    for need, limit in zip(side_of(scoped.row, cpus_per_gpu), room, strict=True)
                )
            ]
            fitting = with_strictness(fitting, scopes_of(cluster, node_type), cpus_per_gpu)
            kept = undominated(fitting, cpus_per_gpu) if self._prune else fitting
            rows += [(index, scoped) for scoped in kept]
        configurations = [scoped.row for _, scoped in rows]
        return ModelSlice(
            model=model,
            rows=tuple(scoped for _, scoped in rows),
            node_class=np.asarray([index for index, _ in rows], dtype=np.int64),
            scope=np.asarray([int(scoped.scope) for _, scoped in rows], dtype=np.int64),
            strict=np.asarray([scoped.strict for _, scoped in rows], dtype=bool),
            iteration_s=np.asarray([row.iteration_s for row in configurations], dtype=np.float64),
            gpus=np.asarray([row.shape.gpus for row in configurations], dtype=np.int64),
            part_count=np.asarray([row.shape.nodes for row in configurations], dtype=np.int64),
            part_gpus=np.asarray(
                [part for row in configurations for part in row.shape.parts], dtype=np.int64
            ),
            side=np.asarray([side_of(row, cpus_per_gpu) for row in configurations]).reshape(-1, 3),
        )

    def _jobs(self, states: tuple[JobState, ...]) -> JobTable:
        cluster = self._cluster
        assert cluster is not None
        stay = [
            float("nan") if s.running is None else (self.speed(s.job, s.running, cluster) or 1e9)
            for s in states
        ]
        return JobTable(
            iterations_left=np.asarray([s.iterations_left for s in states], dtype=np.float64),
            request_iteration_s=np.asarray(
                [self.request_iteration_s(s.job, cluster) for s in states], dtype=np.float64
            ),
            guaranteed=np.asarray([s.job.guaranteed for s in states], dtype=bool),
            restart_s=np.asarray([s.restart_s for s in states], dtype=np.float64),
            restart_left_s=np.asarray([s.restart_left_s for s in states], dtype=np.float64),
            stay_iteration_s=np.asarray(stay, dtype=np.float64),
            attained_gpu_s=np.asarray([s.attained_gpu_s for s in states], dtype=np.float64),
            submission_s=np.asarray([s.job.submission_s for s in states], dtype=np.float64),
            weight=np.asarray([s.job.weight for s in states], dtype=np.float64),
        )

    def _holds(self, states: tuple[JobState, ...]) -> HoldTable:
        assert self._cluster is not None
        job: list[int] = []
        node: list[int] = []
        demand: list[tuple[float, ...]] = []
        uplink: list[float] = []
        for index, state in enumerate(states):
            if state.running is None:
                continue
            side = self._running_side(state.job, state.running)
            crosses = self._cluster.span(state.running.placement.nodes) is Span.POD
            for where, gpus in state.running.placement.parts:
                job.append(index)
                node.append(where)
                demand.append((float(len(gpus)), *(len(gpus) * need for need in side)))
                uplink.append(len(gpus) * side[2] if crosses else 0.0)
        return HoldTable(
            np.asarray(job, dtype=np.int64),
            np.asarray(node, dtype=np.int64),
            np.asarray(demand, dtype=np.float64).reshape(-1, 4),
            np.asarray(uplink, dtype=np.float64),
        )

    def _running_side(self, job: Job, held: Assignment) -> tuple[float, float, float]:
        """Side demand per GPU of a running assignment: that of the row of its own span."""
        assert self._cluster is not None
        node_type = self._cluster.nodes[held.placement.nodes[0]].type
        span = self._cluster.span(held.placement.nodes)
        key = (job.model, job.cpus_per_gpu, node_type, held.placement.shape, held.plan, span)
        if key not in self._sides:
            what = (held.placement.shape, held.plan, int(span))
            same = (
                scoped.row
                for scoped in self.configurations(job.model, node_type)
                if (scoped.row.shape, scoped.row.plan, int(scoped.scope)) == what
            )
            row = next(same, None)
            self._sides[key] = (
                (float(job.cpus_per_gpu), 0.0, 0.0)
                if row is None
                else side_of(row, job.cpus_per_gpu)
            )
        return self._sides[key]


def node_table(cluster: Cluster) -> NodeTable:
    """Nodes of a cluster as a table, all open."""
    kinds = {kind: index for index, kind in enumerate(cluster.node_types)}
    leaves = {name: index for index, name in enumerate(cluster.leaf_names)}
    domains: dict[str, int] = {}
    domain = [
        domains.setdefault(node.nvlink_domain or f"node {node.name}", len(domains))
        for node in cluster.nodes
    ]
    limits = [cluster.uplink_gb_per_s(name) for name in leaves]
    return NodeTable(
        node_class=np.asarray([kinds[node.type] for node in cluster.nodes], dtype=np.int64),
        capacity=np.asarray(
            [
                [float(k.gpus), float(k.cpus), k.host_memory_gib, k.rdma_gb_per_s]
                for k in cluster.node_types
            ]
        ),
        open=np.ones(len(cluster.nodes), dtype=bool),
        leaf=np.asarray([leaves[node.leaf] for node in cluster.nodes], dtype=np.int64),
        domain=np.asarray(domain, dtype=np.int64),
        # With one leaf nothing can leave it.
        uplink_gb_per_s=np.asarray(limits if len(leaves) > 1 else [np.inf]),
    )


def _sharing(states: tuple[JobState, ...]) -> Ints:
    """Running jobs on the same GPUs, shape (Q, 2)."""
    index = {s.job.name: i for i, s in enumerate(states)}
    couples = [
        (i, index[s.running.partner])
        for i, s in enumerate(states)
        if s.running is not None and s.running.partner in index
    ]
    return np.asarray([c for c in couples if c[0] < c[1]], dtype=np.int64).reshape(-1, 2)


def _concatenate(slices: tuple[ModelSlice, ...], counts: Ints) -> CandidateTable:
    if not slices:
        none = np.zeros(0, dtype=np.int64)
        return CandidateTable(
            none, none, np.zeros(0), none, np.zeros(1, dtype=np.int64), none, np.zeros((0, 3))
        )
    part_count = np.concatenate([s.part_count for s in slices])
    return CandidateTable(
        job=np.repeat(np.arange(len(slices), dtype=np.int64), counts),
        node_class=np.concatenate([s.node_class for s in slices]),
        iteration_s=np.concatenate([s.iteration_s for s in slices]),
        gpus=np.concatenate([s.gpus for s in slices]),
        part_start=np.concatenate([[0], np.cumsum(part_count)]).astype(np.int64),
        part_gpus=np.concatenate([s.part_gpus for s in slices]),
        side=np.concatenate([s.side for s in slices]),
        scope=np.concatenate([s.scope for s in slices]),
        strict=np.concatenate([s.strict for s in slices]),
    )
