"""Build the columnar `RoundProblem` of a round from its snapshot.

The configurations of a (model, node class) do not change from round to round, so they are
enumerated, pruned and laid out as arrays once; a round only concatenates slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Ints
from formulations.round.shared import SharedTable
from formulations.round.tables import (
    CandidateTable,
    HoldTable,
    NodeTable,
    RoundProblem,
    Scope,
    Selection,
)
from morph_opt.core.domain import (
    Assignment,
    Cluster,
    ExecutionPlan,
    Job,
    JobState,
    NodeType,
    PlanFamily,
    RoundState,
    Shape,
    SideDemand,
    Span,
)
from morph_opt.core.domain.placement import NOTHING, Sides
from morph_opt.inputs.perf.ests import held_step_s
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.places import configurations_of, fits_node
from morph_opt.inputs.perf.speed import Configuration, SpeedModel
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.scheduling.decision.candidates.dominance import Scoped, undominated, with_strictness
from morph_opt.scheduling.decision.candidates.ests import elastic_slice
from morph_opt.scheduling.decision.candidates.nodes import node_table, scopes_of
from morph_opt.scheduling.decision.candidates.remembered import HeldGpus, KeptPlan, KnownJobs
from morph_opt.scheduling.decision.candidates.slices import (
    ModelSlice,
    compacted,
    may_be_priced,
    of_request,
    stacked,
)


@dataclass(frozen=True, slots=True)
class RoundView:
    """Problem together with the meaning of its indices.

    Parameters
    ----------
    problem
        The tables.
    states
        Job of each index.
    keeps
        Plan in which each job may continue for less than a restart (`remembered.kept_plan`).
    slices
        Slice of each job; candidate k of job j is row ``k - offset[j]`` of it.
    offset
        First candidate of each job, shape (J + 1,); pairs follow the last.
    compact
        Whether configurations were left out that no prices choose (`slices.compacted`): bounds by
        prices hold all the same if network shares of a class have none, those of an exact model
        do not.
    """

    problem: RoundProblem
    states: tuple[JobState, ...]
    keeps: Sequence[KeptPlan | None]
    slices: tuple[ModelSlice, ...]
    offset: Ints
    compact: bool = False

    def configuration(self, job: int, candidate: int) -> Configuration:
        """Return the configuration in which a job starts in an option."""
        if candidate >= self.offset[-1]:
            members = self.problem.options.members
            candidate = int(members.alone[members.of(candidate, job)])
        return self.slices[job].rows[candidate - int(self.offset[job])].row

    def numbered_in(self, other: RoundView, decided: Selection) -> Selection:
        """Return a decision in the numbers of another view of the same snapshot.

        The other view must leave no configuration out; both have no pairs and prices of starts.
        """
        choice, count = decided.choice.copy(), self.problem.candidates.count
        place: dict[int, dict[int, int]] = {}
        for job in np.flatnonzero(choice >= 0).tolist():
            option = int(choice[job])
            if option >= count:
                choice[job] = other.problem.options.stay[job]
                continue
            rows = other.slices[job].rows
            if id(rows) not in place:
                place[id(rows)] = {id(row): at for at, row in enumerate(rows)}
            row = self.slices[job].rows[option - int(self.offset[job])]
            choice[job] = int(other.offset[job]) + place[id(rows)][id(row)]
        return Selection(choice, decided.nodes)


class CandidateBuilder:
    """Builder of the `RoundProblem` of a state under a belief about speed; caches per model.

    Parameters
    ----------
    belief
        Speeds that the policy goes by; plans that do not fit in memory and tensor-parallel groups
        that leave their NVLink domain are taken out (`MemoryFilter` keeps the reasons).
    prune
        Drop dominated configurations (never changes an optimum, see
        `morph_opt.scheduling.decision.candidates.dominance`).
    requests_only
        Offer every job its request alone, the fastest shape first. Where no configuration has the
        requested plan on that many GPUs (the published traces have such rows), any plan on that
        many GPUs counts, then all configurations.
    compact_from
        Candidates from which on rounds are posed compactly; None: never. Like dominance it needs
        goals that do not lose from a faster configuration and depend on GPUs alone.
    waste_filter
        Filter for workers that take turns; see
        `morph_opt.scheduling.decision.candidates.ests.elastic_slice`.
    """

    def __init__(
        self,
        belief: SpeedModel,
        *,
        prune: bool = True,
        requests_only: bool = False,
        compact_from: int | None = None,
        waste_filter: float | None = None,
    ) -> None:
        self.belief = MemoryFilter(belief)
        self._waste_filter = waste_filter
        self._prune = prune
        self._requests_only = requests_only
        self._compact_from = compact_from
        self._cluster: Cluster | None = None
        self._rows = 0
        # Key of what may be priced -> number of a slice -> number of its compacted slice.
        self._compact: dict[bytes, dict[int, int]] = {}
        self._slices: dict[
            tuple[str, SideDemand, int, ExecutionPlan | None, KeptPlan | None], ModelSlice
        ] = {}
        self._stack: CandidateTable | None = None
        self._made: list[ModelSlice] = []
        self._number: dict[int, int] = {}
        self._known = KnownJobs()
        # The round before: all that its tables depend on but progress of jobs, and its tables.
        self._last: tuple[tuple[KnownJobs, frozenset[int], float], RoundView] | None = None
        self._speeds: dict[tuple[str, NodeType, Shape, ExecutionPlan, Span], float | None] = {}
        self._requests = GangSpeeds(self.belief)
        self._sides: dict[tuple[str, SideDemand, NodeType, Shape, ExecutionPlan, Span], Sides] = {}
        self._held: dict[
            tuple[str, SideDemand, int, tuple[int, ...], ExecutionPlan, int], tuple[float, Sides]
        ] = {}
        self._nodes: NodeTable | None = None
        self._configurations: dict[tuple[str, NodeType], list[Scoped]] = {}

    def view(self, state: RoundState, whole: bool = False) -> RoundView:
        """Return the tables of a round; with ``whole``, leave nothing out however large it is."""
        self._use(state.cluster)
        states = state.jobs
        self._known = known = self._known.next(states, self._what_it_is, self._what_it_holds)
        made_of = known, state.unavailable, state.interval_s
        if self._last is not None and self._last[0] == made_of and not whole:
            view = self._last[1]
            problem = view.problem.later(known.job_table(states))
            return replace(view, problem=problem, states=states)
        # Large rounds take gigabytes: release the one before its successor is made.
        self._last = None
        assert self._nodes is not None
        holds, every = known.hold_table(self._nodes.resources), known.rows["configurations"]
        # A job may return to a configuration that prices never choose.
        kept = whole or any(known.keeps)
        which = every if kept else self._compacted(every, holds)
        counts = np.asarray([s.gpus.size for s in self._made], dtype=np.int64)[which]
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        is_open = np.ones(self._nodes.count, dtype=bool)
        is_open[list(state.unavailable)] = False
        problem = RoundProblem(
            jobs=known.job_table(states),
            candidates=self._candidates(which, counts, offset),
            nodes=replace(self._nodes, open=is_open),
            holds=holds,
            interval_s=state.interval_s,
            shared=SharedTable(gang=known.gangs()),
        )
        slices = tuple(map(self._made.__getitem__, which.tolist()))
        view = RoundView(problem, states, known.keeps, slices, offset, which is not every)
        if not whole:
            self._last = made_of, view
        return view

    def _compacted(self, whole: Ints, holds: HoldTable) -> Ints:
        """Return the numbers of a round's slices, compacted ones if the round is large."""
        least, nodes = self._compact_from, self._nodes
        sizes = np.asarray([s.gpus.size for s in self._made], dtype=np.int64)
        if least is None or int(sizes[whole].sum()) < least:
            return whole
        assert nodes is not None
        matters = may_be_priced(self._slices.values(), holds, nodes)
        small = self._compact.setdefault(matters.tobytes(), {})
        for number in np.flatnonzero(np.bincount(whole)).tolist():
            if number not in small:
                less = compacted(self._made[number], matters, self._rows)
                small[number] = self._add(less)
        to = np.zeros(len(self._made), dtype=np.int64)
        to[list(small)] = list(small.values())
        return to[whole]

    def _add(self, made: ModelSlice) -> int:
        """Note a slice; return its number."""
        self._made.append(made)
        self._number[id(made)] = len(self._made) - 1
        self._rows += made.gpus.size
        self._stack = None
        return len(self._made) - 1

    def _what_it_is(self, job: Job, keeps: KeptPlan | None) -> tuple[int, float]:
        """Return the index of a job's slice, and seconds per iteration of its request."""
        assert self._cluster is not None
        seconds = self.request_iteration_s(job, self._cluster)
        return self._number[id(self.slice_of(job, keeps))], seconds

    def _what_it_holds(self, job: Job, held: Assignment) -> HeldGpus:
        """Return a running job's placement and what it holds."""
        cluster, placement = self._cluster, held.placement
        assert cluster is not None
        assert self._nodes is not None
        span = topology_of(cluster).span(placement.nodes)
        kind = int(self._nodes.node_class[placement.nodes[0]])
        # The key has all that the value depends on: node types and spans are slow keys.
        key = (job.model, job.side, kind, placement.shape.parts, held.plan, int(span))
        known = self._held.get(key)
        if known is None or held.plan.family is PlanFamily.EST:
            known = (self.speed(job, held, cluster) or 1e9, self._running_side(job, held))
            self._held[key] = known
        shares, parts = held.partner is not None, placement.shape.parts
        if len(parts) > 1:
            parts = tuple(len(gpus) for _, gpus in placement.parts)
        return HeldGpus(*known, span is Span.POD, shares, placement.nodes, parts)

    def _candidates(self, which: Ints, counts: Ints, offset: Ints) -> CandidateTable:
        """Return the rows of every job's slice, one job after the other."""
        if self._stack is None:
            assert self._nodes is not None
            self._stack = stacked(tuple(self._made), self._nodes.resources)
        first = np.asarray([s.first for s in self._made], dtype=np.int64)[which]
        row = np.repeat(first - offset[:-1], counts) + np.arange(int(offset[-1]))
        jobs = np.repeat(np.arange(which.size, dtype=np.int64), counts)
        return self._stack.take(row, jobs)

    def request_iteration_s(self, job: Job, cluster: Cluster) -> float:
        """Return seconds per iteration of a job's request; see `GangSpeeds.iteration_s`."""
        self._use(cluster)
        return self._requests.iteration_s(job)

    def configurations(self, model: str, node_type: NodeType) -> list[Scoped]:
        """Return all configurations of a model on a node class, each with its scope."""
        key = (model, node_type)
        if key not in self._configurations:
            assert self._cluster is not None
            self._configurations[key] = [
                Scoped(Scope(int(span)), row)
                for span, row in configurations_of(self.belief, model, self._cluster, node_type)
            ]
        return self._configurations[key]

    def speed(self, job: Job, held: Assignment, cluster: Cluster) -> float | None:
        """Return the believed seconds per iteration of a running assignment."""
        if held.plan.family is PlanFamily.EST:
            return held_step_s(self.belief, job.model, held, cluster)
        nodes, shape = held.placement.nodes, held.placement.shape
        node_type, span = cluster.nodes[nodes[0]].type, topology_of(cluster).span(nodes)
        key = (job.model, node_type, shape, held.plan, span)
        if key not in self._speeds:
            model = job.model
            self._speeds[key] = self.belief.iteration_s(model, node_type, shape, held.plan, span)
        return self._speeds[key]

    def all_of(self, job: Job, cluster: Cluster) -> ModelSlice:
        """Return the configurations of a job on a cluster, whatever the round."""
        self._use(cluster)
        return self.slice_of(job)

    def slice_of(self, job: Job, keeps: KeptPlan | None = None) -> ModelSlice:
        """Return the cached configurations of a job's model with its side demand.

        All configurations of the plan that the job ``keeps`` are among them, dominated or not: a
        dominating one costs a dearer start.
        """
        workers = job.requested_plan.family is PlanFamily.EST
        asks = self._requests_only or workers
        request = (job.requested_gpus, job.requested_plan) if asks else (0, None)
        keeps = None if workers else keeps  # what those have is one of their numbers of GPUs
        if keeps is not None and self._holds_all(self.slice_of(job), keeps, job):
            keeps = None
        key = (job.model, job.side, *request, keeps)
        if key not in self._slices:
            if self._cluster is None:
                raise ValueError("the builder has not seen a cluster yet")
            self._slices[key] = self._make_slice(job, self._cluster, self._rows, keeps)
            self._add(self._slices[key])
        return self._slices[key]

    def _holds_all(self, known: ModelSlice, keeps: KeptPlan, job: Job) -> bool:
        """Return whether a slice has all configurations of the plan that a job keeps."""
        assert self._cluster is not None
        every = sum(len(rows) for _, rows in self._fitting(job, self._cluster, keeps))
        return every == sum(keeps == (s.row.plan, s.row.shape.gpus) for s in known.rows)

    def _use(self, cluster: Cluster) -> None:
        if cluster is self._cluster:
            return
        self._cluster = cluster
        for cache in (
            self._slices,
            self._speeds,
            self._sides,
            self._held,
            self._configurations,
            self._compact,
            self._number,
            self._made,
        ):
            cache.clear()
        self._rows = 0
        self._stack, self._known, self._last = None, KnownJobs(), None
        self._requests.use(cluster)
        self._nodes = node_table(cluster)

    def _fitting(
        self, job: Job, cluster: Cluster, keeps: KeptPlan | None = None
    ) -> Iterator[tuple[int, list[Scoped]]]:
        """Yield each node class with its fitting configurations, all of them or of ``keeps``."""
        for index, node_type in enumerate(cluster.node_types):
            yield (
                index,
                [
                    scoped
                    for scoped in self.configurations(job.model, node_type)
                    if keeps in (None, (scoped.row.plan, scoped.row.shape.gpus))
                    and fits_node(scoped.row, node_type, job.side)
                ],
            )

    def _make_slice(
        self, job: Job, cluster: Cluster, first: int, keeps: KeptPlan | None
    ) -> ModelSlice:
        if job.requested_plan.family is PlanFamily.EST:
            how = self._requests_only, self._waste_filter
            return elastic_slice(job, cluster, self.belief, first, *how)
        rows: list[tuple[int, Scoped]] = []
        for index, fits in self._fitting(job, cluster):
            scopes = scopes_of(cluster, cluster.node_types[index])
            fitting = with_strictness(fits, scopes, job.side)
            kept = undominated(fitting, job.side) if self._prune else fitting
            if keeps is not None:
                had = [s for s in fitting if keeps == (s.row.plan, s.row.shape.gpus)]
                kept = [*kept, *(s for s in had if s not in kept)]
            rows += [(index, scoped) for scoped in kept]
        if self._requests_only:
            rows = of_request(rows, job)
        return ModelSlice.of(job.model, rows, job.side, first)

    def _running_side(self, job: Job, held: Assignment) -> Sides:
        """Return the side demand of a running assignment, found by its configuration and span."""
        assert self._cluster is not None
        if held.plan.family is PlanFamily.EST:
            return job.side.each
        node_type = self._cluster.nodes[held.placement.nodes[0]].type
        span = topology_of(self._cluster).span(held.placement.nodes)
        key = (job.model, job.side, node_type, held.placement.shape, held.plan, span)
        if key not in self._sides:
            what = (held.placement.shape, held.plan, int(span))
            same = (
                scoped.row
                for scoped in self.configurations(job.model, node_type)
                if (scoped.row.shape, scoped.row.plan, int(scoped.scope)) == what
            )
            row = next(same, None)
            self._sides[key] = (NOTHING if row is None else row.side).beside(job.side)
        return self._sides[key]
