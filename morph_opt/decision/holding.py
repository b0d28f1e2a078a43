"""Who holds what, node by node and uplink by uplink, from placements and speeds alone.

It finds a GPU held twice, and nodes and uplinks that carry more than they have. Nothing of a
round's tables enters: what a job holds is the row that the speeds have for the span of its own
placement, asked anew, so that a slip in the tables is found here and not repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, compress
from operator import attrgetter, not_

from morph_opt.domain import (
    Allocation,
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
from morph_opt.perf.ests import held_step_s
from morph_opt.perf.memory.filter import MemoryFilter
from morph_opt.perf.speed import SpeedModel

TOLERANCE = 1e-9
"""Relative slack of sums of floating-point demands."""

RESOURCES = ("CPU threads", "GiB of host memory", "GB/s of network cards")


class Needs:
    """What configurations hold next to each GPU, by the span of their placement.

    Parameters
    ----------
    speeds
        Say what a configuration needs. Plans are judged by their memory as candidates are: an
        offloading plan holds host memory.
    """

    def __init__(self, speeds: SpeedModel) -> None:
        self._speeds = MemoryFilter(speeds)
        self._models = frozenset(speeds.models())
        self._rows: dict[
            tuple[str, NodeType, int, Span], dict[tuple[Shape, ExecutionPlan], SideDemand]
        ] = {}

    def of(self, job: Job, held: Assignment, cluster: Cluster) -> SideDemand | None:
        """Demand per GPU of a placement; None where the speeds have no row for it."""
        if job.model not in self._models:
            return None
        if held.plan.family is PlanFamily.EST:
            seconds = held_step_s(self._speeds, job.model, held, cluster)
            return None if seconds is None else SideDemand()
        nodes = held.placement.nodes
        kind, span = cluster.nodes[nodes[0]].type, cluster.span(nodes)
        key = (job.model, kind, cluster.gpus, span)
        if key not in self._rows:
            # Shapes of one part are the same in every span.
            asked = self._speeds.configurations(
                job.model, kind, cluster.gpus, Span.LEAF if span is Span.NODE else span
            )
            self._rows[key] = {(row.shape, row.plan): row.side for row in reversed(asked)}
        return self._rows[key].get((held.placement.shape, held.plan))


class Holding:
    """Collects what jobs hold.

    Parameters
    ----------
    cluster
        What there is.
    needs
        What configurations need next to their GPUs.
    failed
        Nodes that hold nothing.
    """

    def __init__(self, cluster: Cluster, needs: Needs, failed: Collection[int]) -> None:
        self._cluster = cluster
        self._needs = needs
        self._failed = failed
        self._holder: dict[tuple[int, int], tuple[str, str | None]] = {}
        self._side: dict[int, tuple[float, float, float]] = {}
        self._uplinks: dict[str, float] = {}

    def alone(self) -> Holding:
        """The same with nobody on it."""
        return Holding(self._cluster, self._needs, self._failed)

    def take(
        self, job: str, node: int, gpus: Sequence[int], partner: str | None = None
    ) -> str | None:
        """Note the GPUs of a part; the rule that this breaks, or None.

        A job and its partner, each naming the other, may hold the same.
        """
        name, has = self._cluster.nodes[node].name, self._cluster.nodes[node].type.gpus
        if node in self._failed:
            return f"node {name} has failed and holds nothing"
        for gpu in gpus:
            if not 0 <= gpu < has:
                return f"node {name} has the GPUs 0 to {has - 1}, got {gpu}"
            holder, other = self._holder.setdefault((node, gpu), (job, partner))
            if holder != job and (holder, other) != (partner, job):
                return f"GPU {gpu} of node {name} is held by job {holder} already"
        if len(set(gpus)) != len(gpus):
            return f"job {job} holds a GPU of node {name} twice"
        return None

    def add_side(self, job: Job, held: Assignment, node: int) -> str | None:
        """Note the other resources of a part; the rule that this breaks, or None."""
        nodes = self._cluster.nodes
        kind, first = nodes[node].type, nodes[held.placement.nodes[0]].type
        if kind.gpu_type != first.gpu_type and held.plan.determinism != "d2":
            return f"job {job.name} holds GPUs of two types"
        side = self._needs.of(job, held, self._cluster) or SideDemand()
        gpus = next(len(indices) for where, indices in held.placement.parts if where == node)
        before = self._side.get(node, (0.0, 0.0, 0.0))
        self._side[node] = after = (
            before[0] + gpus * max(job.cpus_per_gpu, side.cpus),
            before[1] + gpus * side.host_memory_gib,
            before[2] + gpus * side.rdma_gb_per_s,
        )
        if side.rdma_gb_per_s and self._cluster.span(held.placement.nodes) is Span.POD:
            leaf = nodes[node].leaf
            self._uplinks[leaf] = self._uplinks.get(leaf, 0.0) + gpus * side.rdma_gb_per_s
        has = (kind.cpus, kind.host_memory_gib, kind.rdma_gb_per_s)
        for amount, limit, words in zip(after, has, RESOURCES, strict=True):
            if amount > limit * (1.0 + TOLERANCE):
                return f"node {nodes[node].name} would hold {amount:g} {words}, it has {limit:g}"
        return None

    def overbooked(self) -> str | None:
        """The leaf whose uplink carries more than it has, in words, or None."""
        for leaf, used in self._uplinks.items():
            limit = self._cluster.uplink_gb_per_s(leaf)
            if used > limit * (1.0 + TOLERANCE):
                return f"the uplink of leaf {leaf} would carry {used:g} GB/s, it has {limit:g}"
        return None


class HoldingCheck:
    """`broken_holding` round after round, where most jobs go on as they were.

    Parameters
    ----------
    needs
        What configurations need next to their GPUs.
    """

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._cluster: Cluster | None = None
        # By identity, which is safe while the allocation that passed is kept.
        self._passed = Allocation()
        self._job: dict[int, Job] = {}

    def broken(self, state: RoundState, allocation: Allocation) -> str | None:
        """What is wrong with who holds what after a decision, in words; None if nothing is."""
        ids = list(map(id, allocation.assignments))
        holder = dict(zip(map(id, map(_RUNNING, state.jobs)), map(_JOB, state.jobs), strict=True))
        known = self._job if state.cluster is self._cluster else {}
        goes_on = [at in known and known[at] is holder.get(at) for at in ids]
        fresh = list(compress(allocation.assignments, map(not_, goes_on)))
        nodes = [held.placement.nodes for held in allocation.assignments]
        concerned = self._concerned(state, allocation, fresh, nodes)
        broken = broken_holding(state, concerned, self._needs)
        if broken is None:
            jobs = _entries(state, fresh)
            self._cluster, self._passed = state.cluster, allocation
            self._job = {at: holder[at] for at in compress(ids, goes_on)}
            self._job.update((id(held), jobs[held.job].job) for held in fresh)
        return broken

    @staticmethod
    def _concerned(
        state: RoundState,
        allocation: Allocation,
        fresh: list[Assignment],
        nodes: list[tuple[int, ...]],
    ) -> Allocation:
        """Those that are new since the last round, and all on their nodes and on failed ones.

        The others passed together, and nothing came to where they are. Uplinks are shared by
        nodes, so where they are limited everybody is concerned.
        """
        if state.cluster.leaves or len(fresh) == len(nodes):
            return allocation
        touched = {*state.failed, *chain.from_iterable(held.placement.nodes for held in fresh)}
        near = map(not_, map(touched.isdisjoint, nodes))
        return Allocation(tuple(compress(allocation.assignments, near)))


_RUNNING, _JOB = attrgetter("running"), attrgetter("job")


def _entries(state: RoundState, allocation: Iterable[Assignment]) -> dict[str, JobState]:
    """Jobs that hold something, by name."""
    names = {held.job for held in allocation}
    return {entry.job.name: entry for entry in state.jobs if entry.job.name in names}


def broken_holding(
    state: RoundState, allocation: Allocation, needs: Needs, *, spans: bool = True
) -> str | None:
    """What is wrong with who holds what after a decision, in words; None if nothing is.

    Nobody unknown gets GPUs, no GPU is held by two jobs but by a pair, nodes hold no more than
    they have; and, of policies that know ``spans``, what starts has a row for the span that it is
    in, and no uplink carries more than it has.
    """
    holding = Holding(state.cluster, needs, state.failed)
    known = _entries(state, allocation.assignments)
    for held in allocation.assignments:
        if held.job not in known:
            return f"grants GPUs to the unknown job {held.job}"
        job, before = known[held.job].job, known[held.job].running
        for node, gpus in held.placement.parts:
            rule = holding.take(held.job, node, gpus, held.partner)
            rule = rule or holding.add_side(job, held, node)
            if rule is not None:
                return rule
        if not spans:
            continue
        stays = before is not None and (before.plan, before.placement) == (
            held.plan,
            held.placement,
        )
        if not stays and needs.of(job, held, state.cluster) is None:
            span = state.cluster.span(held.placement.nodes).name.lower()
            where = f"{held.placement.shape} in a {span}"
            return f"job {held.job} would run {held.plan} on {where}: no speed is known of that"
    return holding.overbooked() if spans else None
