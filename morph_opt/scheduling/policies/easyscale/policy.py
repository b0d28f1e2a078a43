"""EasyScale's greedy as a policy: each GPU to the job that gains most, none taken away.

A new job gets its slowest proposal, one GPU; a running one asks once per type for more of it, and
the highest scores are granted, one a job (`morph_opt.scheduling.policies.easyscale.grants`). What a
job holds is all that is remembered of it. Rules: ``docs/gandiva-easyscale.md``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    InputError,
    Job,
    JobState,
    Placement,
    PlanFamily,
    RoundState,
)
from morph_opt.inputs.perf.ests import (
    UNIT_S,
    ElasticModel,
    allowed_types,
    elastic_model,
    worker_slots,
)
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport
from morph_opt.scheduling.policies.easyscale.grants import Grant, Holder, Proposal, grant_greedily

_Free = dict[int, list[int]]


class EasyScale(Policy):
    """Policies ``homo`` and ``heter`` with exact step times; GPUs left idle are given back.

    Parameters
    ----------
    belief
        Speeds that it goes by.
    rule
        ``"homo"`` or ``"heter"``: workers on one type, or on any where kernels are equal on all.
    """

    def __init__(self, belief: SpeedModel, rule: str) -> None:
        self._belief = belief
        self.name = f"easyscale:{rule}"
        self._rule = rule
        self._cluster: Cluster | None = None
        self._known: dict[tuple[Job, tuple[int, ...]], list[Proposal]] = {}

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        began = time.perf_counter()
        if state.cluster is not self._cluster:
            self._cluster = state.cluster
            self._known.clear()
        pools = _pools(state)
        live = [self._live(known, state, pools) for known in state.jobs]
        # No job grows on a drained node: a job there may only stay.
        stuck = [
            one.now is not None and _drained(s, state)
            for one, s in zip(live, state.jobs, strict=True)
        ]
        before = [one.now for one in live]
        grant_greedily(live, list(pools))
        given: list[Assignment] = []
        free = _free(state)
        for one, was, known, stays in zip(live, before, state.jobs, stuck, strict=True):
            kept = known.running
            if kept is not None and (stays or one.now is was) and one.now is not None:
                given.append(kept)
                continue
            if kept is not None:
                _release(free, kept, state)
            if one.now is not None:
                placed = _placed(known, one.now.gpus, free, state)
                if placed is not None:
                    given.append(placed)
                elif kept is not None:
                    _take(free, kept.placement)
                    given.append(kept)
        report = RoundReport(
            "heuristic" if state.jobs else "idle",
            candidates=sum(len(one.proposals) for one in live),
            place_ms=1e3 * (time.perf_counter() - began),
        )
        return Decision(Allocation(tuple(given)), report)

    def _live(self, known: JobState, state: RoundState, pools: tuple[int, ...]) -> Holder:
        """Return a job in the terms of the rules: its proposals and its grant."""
        proposals = self._proposals(known.job, state.cluster, pools)
        if known.running is None:
            return Holder(proposals)
        held = _counts(known.running.placement, state.cluster)
        # What it was sold; some of its GPUs may be idle under that map.
        sold = [p for p in proposals if all(n <= m for n, m in zip(p.gpus, held, strict=True))]
        best = max(sold, key=lambda p: (p.gpus == held, p.speed), default=None)
        speed = 0.0 if best is None else best.speed
        return Holder(proposals, Grant(held, () if best is None else best.workers, speed))

    def _proposals(self, job: Job, cluster: Cluster, pools: tuple[int, ...]) -> list[Proposal]:
        key = (job, pools)
        if key not in self._known:
            self._known[key] = self._propose(job, cluster, pools)
        return self._known[key]

    def _propose(self, job: Job, cluster: Cluster, pools: tuple[int, ...]) -> list[Proposal]:
        plan, names = job.requested_plan, [kind.name for kind in cluster.gpu_types]
        if plan.family is not PlanFamily.EST or plan.determinism == "d0":
            rule = "must have workers on any number of GPUs (a plan estM-d1-TYPE or estM-d2-TYPE)"
            raise InputError(rule, field=f"job {job.name}")
        allowed = allowed_types(self._belief, job.model, plan, cluster)
        if plan.gpu_type not in allowed:
            rule = f"its type {plan.gpu_type} is not in cluster {cluster.name!r}"
            raise InputError(rule, field=f"job {job.name}")
        model = elastic_model(self._belief, job.model, plan, allowed)
        assert model is not None
        mixed = plan.determinism == "d2" and self._rule == "heter"
        own = names.index(plan.gpu_type)
        mine = tuple(
            n if name in allowed and (mixed or k == own) else 0
            for k, (name, n) in enumerate(zip(names, pools, strict=True))
        )
        return _exact(model, names, allowed, mine) if any(mine) else []


def _exact(
    model: ElasticModel, names: Sequence[str], allowed: Sequence[str], pools: Sequence[int]
) -> list[Proposal]:
    """Return every vector that needs all its GPUs, with its step time, fastest first."""
    at = [names.index(name) for name in allowed]
    vectors, steps = model.vectors([pools[k] for k in at])
    waste = model.waste(vectors, steps)
    found = []
    for vector, step, lost in zip(vectors.tolist(), steps.tolist(), waste.tolist(), strict=True):
        gpus = [0] * len(names)
        for k, n in zip(at, vector, strict=True):
            gpus[k] = n
        speed = model.workers / float(step * UNIT_S)
        found.append(Proposal(tuple(gpus), (), lost, speed, speed))
    return sorted(found, key=lambda p: (-p.speed, p.waste, tuple(-n for n in p.gpus)))


def _pools(state: RoundState) -> tuple[int, ...]:
    """Return GPUs by type that are open, or held by a job that may stay."""
    held = {node for s in state.jobs if s.running is not None for node in s.running.placement.nodes}
    count = dict.fromkeys(state.cluster.gpu_types, 0)
    for index, node in enumerate(state.cluster.nodes):
        if index not in state.unavailable:
            count[node.type.gpu_type] += node.type.gpus
        elif index in held:
            count[node.type.gpu_type] += sum(
                len(gpus)
                for s in state.jobs
                if s.running is not None
                for where, gpus in s.running.placement.parts
                if where == index
            )
    return tuple(count.values())


def _counts(placement: Placement, cluster: Cluster) -> tuple[int, ...]:
    found = dict.fromkeys(cluster.gpu_types, 0)
    for node, gpus in placement.parts:
        found[cluster.nodes[node].type.gpu_type] += len(gpus)
    return tuple(found.values())


def _drained(known: JobState, state: RoundState) -> bool:
    return known.running is not None and not state.unavailable.isdisjoint(
        known.running.placement.nodes
    )


def _free(state: RoundState) -> _Free:
    """Return the GPUs of open nodes that nobody holds at the start of the round."""
    free = {
        index: list(range(node.type.gpus))
        for index, node in enumerate(state.cluster.nodes)
        if index not in state.unavailable
    }
    for known in state.jobs:
        if known.running is not None:
            _take(free, known.running.placement)
    return free


def _take(free: _Free, placement: Placement) -> None:
    for node, gpus in placement.parts:
        if node in free:
            free[node] = [gpu for gpu in free[node] if gpu not in gpus]


def _release(free: _Free, held: Assignment, state: RoundState) -> None:
    for node, gpus in held.placement.parts:
        if node not in state.unavailable:
            free[node] = sorted((*free[node], *gpus))


def _placed(
    known: JobState, gpus: Sequence[int], free: _Free, state: RoundState
) -> Assignment | None:
    """Return GPUs by type: the job's own, then on the fullest nodes; None if too few.

    GPUs without enough side resources left on their node do not count.
    """
    job, nodes = known.job, state.cluster.nodes
    own = {} if known.running is None else dict(known.running.placement.parts)
    parts: dict[int, list[int]] = {}
    for kind, count in zip(state.cluster.gpu_types, gpus, strict=True):
        mine = [n for n in free if nodes[n].type.gpu_type == kind]
        left = count
        for node in sorted(mine, key=lambda n: (n not in own, len(free[n]), n)):
            used = nodes[node].type.gpus - len(free[node])
            room = worker_slots(job, nodes[node].type) - used
            kept = [gpu for gpu in free[node] if gpu in own.get(node, ())]
            rest = [gpu for gpu in free[node] if gpu not in kept]
            taken = [*kept, *rest][: max(0, min(left, room))]
            if taken:
                parts[node] = taken
                left -= len(taken)
        if left:
            return None
    for node, taken in parts.items():
        free[node] = [gpu for gpu in free[node] if gpu not in taken]
    return Assignment(job.name, job.requested_plan, Placement.of(parts))
