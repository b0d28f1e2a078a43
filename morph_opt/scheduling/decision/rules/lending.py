"""GPUs that owners of quotas could use: the rest may be borrowed.

A job could use the GPUs of its largest *useful* configuration: one that its own rules allow, that
fits on the open nodes of the round if they were empty, and that no other such configuration
dominates. So a shape that no leaf can hold, and GPUs that no job gains from, may be borrowed,
whether dominated candidates were built or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.resources import UPLINK
from formulations.round.tables import RoundProblem, Scope
from morph_opt.core.domain import SideDemand
from morph_opt.scheduling.decision.candidates.dominance import undominated
from morph_opt.scheduling.decision.candidates.slices import ModelSlice
from morph_opt.scheduling.decision.candidates.table import RoundView

Place = tuple[int, float]
"""Open nodes of a leaf or domain, and the bandwidth of its uplink (infinite inside a leaf)."""


def could_use(view: RoundView, allowed: Bools) -> Floats:
    """Return how many GPUs each job could use, shape (J,); 0 without a usable configuration.

    Parameters
    ----------
    view
        Round with its node sets and closed nodes.
    allowed
        Whether the job's own rules allow a candidate, shape (K,).
    """
    problem = view.problem
    largest = np.zeros(problem.jobs.count)
    known: dict[tuple[int, SideDemand, int, bytes], float] = {}
    for job, (slice_, known_job) in enumerate(zip(view.slices, view.states, strict=True)):
        first, last = int(view.offset[job]), int(view.offset[job + 1])
        if first == last:
            continue
        mine, node_set = allowed[first:last], int(problem.candidates.node_set[first])
        key = (id(slice_), known_job.job.side, node_set, mine.tobytes())
        if key not in known:
            known[key] = _largest(problem, slice_, node_set, mine, known_job.job.side)
        largest[job] = known[key]
    return largest


def _largest(
    problem: RoundProblem, model: ModelSlice, node_set: int, allowed: Bools, asked: SideDemand
) -> float:
    usable = problem.nodes.open & problem.nodes.sets[node_set]
    useful = 0
    for node_class in np.unique(model.node_class).tolist():
        nodes = np.flatnonzero(usable & (problem.nodes.node_class == node_class))
        rows = np.flatnonzero(allowed & (model.node_class == node_class)).tolist()
        fits = [model.rows[row] for row in rows if _has_room(problem, model, row, nodes)]
        for scoped in undominated(fits, asked):
            useful = max(useful, scoped.row.shape.gpus)
    return float(useful)


def _has_room(problem: RoundProblem, model: ModelSlice, row: int, nodes: Ints) -> bool:
    """Return whether these nodes, if empty, could hold a configuration within its scope."""
    parts = model.rows[row].row.shape.parts
    leaf, domain = problem.nodes.leaf[nodes], problem.nodes.domain[nodes]
    scope, most = Scope(int(model.scope[row])), len(parts) - int(model.strict[row])
    can_assign = partial(_can_be_assigned, parts, most=most)
    if scope is Scope.NODE:
        return nodes.size > 0
    if scope is Scope.NVLINK:
        return bool(np.bincount(domain, minlength=1).max() >= len(parts))
    if scope is Scope.LEAF:
        hosts = (domain[leaf == host] for host in np.unique(leaf).tolist())
        return any(can_assign(_places(host, None), share=0.0) for host in hosts)
    return can_assign(
        _places(leaf, problem.nodes.uplink_gb_per_s), share=float(model.side[row, UPLINK])
    )


def _places(of_node: Ints, uplinks: Floats | None) -> list[Place]:
    names, counts = np.unique(of_node, return_counts=True)
    limits = np.full(names.size, np.inf) if uplinks is None else uplinks[names]
    return list(zip(counts.tolist(), limits.tolist(), strict=True))


def _can_be_assigned(
    parts: Sequence[int], places: Iterable[Place], *, most: int, share: float
) -> bool:
    """Return whether parts fit on distinct nodes of places, at most ``most`` in each.

    Keep the sets of parts that may still be left, place by place; of equal parts only their number
    counts, so there are few sets.
    """
    sizes = sorted(set(parts))
    left: set[tuple[int, ...]] = {tuple(parts.count(size) for size in sizes)}
    for nodes, limit in places:
        left = {
            rest
            for before in left
            for rest in _taken(before, sizes, min(nodes, most), limit, share)
        }
        if any(not any(rest) for rest in left):
            return True
    return False


def _taken(
    before: tuple[int, ...], sizes: Sequence[int], nodes: int, limit: float, share: float
) -> Iterable[tuple[int, ...]]:
    """Yield the possible remainders of parts after one place has taken as many as it can."""
    if not before:
        yield ()
        return
    need = share * sizes[-1]
    fits = min(before[-1], nodes)
    if need > 0.0 and np.isfinite(limit):
        fits = min(fits, int((limit + 1e-9) / need * (1 + 1e-9)))
    for count in range(fits if len(before) == 1 else 0, fits + 1):
        for rest in _taken(before[:-1], sizes[:-1], nodes - count, limit - count * need, share):
            yield (*rest, before[-1] - count)
