"""Pairs of jobs on the same GPUs, as candidates of a round.

Offered where the speed table has measured the two together on such GPUs (so memory fits both) and
sharing gains: the fractions of their speeds alone that the two keep add up to more than
`PairParams.least_gain`. Two jobs that take turns keep fractions that add up to 1, so leaving other
pairs out loses nothing.

* *Fresh* pairs are of two queued jobs with the same gang.
* Pairs *in place* are of a running job and a queued one that comes to it, and of two running jobs
  that share already; the last are always offered.

Jobs with a guarantee are in no pair: a pair slows both. How many pairs are offered is bounded per
job (`PairParams.partners`), so that a round grows with its jobs and not with their square.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Floats
from formulations.round.candidates import amounts, per_unit
from formulations.round.rules import with_shared
from formulations.round.shared import SharedTable
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import Cluster, RoundState, Shape
from morph_opt.inputs.perf.speed import PairSpeeds
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.scheduling.decision.candidates.slices import ModelSlice
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.params import PAIRS, PairParams


@dataclass(frozen=True, slots=True)
class _Recipe:
    """Way in which jobs of two slices may start together: rows of the slices, paces and gain."""

    rows: tuple[int, int]
    pace_s: tuple[float, float]
    gain: float


@dataclass(frozen=True, slots=True)
class _Row:
    """Pair of jobs, the candidate in which each starts (-1: it stays), and their paces."""

    jobs: tuple[int, int]
    candidates: tuple[int, int]
    pace_s: tuple[float, float]


class PairBuilder:
    """Builder that adds pairs to rounds; caches what it looks up in the speed table.

    Parameters
    ----------
    speeds
        Measured speeds of pairs.
    params
        Numbers of pairs that rounds are offered.
    """

    def __init__(self, speeds: PairSpeeds, *, params: PairParams = PAIRS) -> None:
        self._speeds = speeds
        self._params = params
        self._cluster: Cluster | None = None
        self._recipes: dict[tuple[int, int], tuple[_Recipe, ...]] = {}
        # Slices are named by identity in the table above, so they are kept alive with it.
        self._slices: dict[int, ModelSlice] = {}

    def extended(self, view: RoundView, state: RoundState) -> RoundView:
        """Return the round with its pairs; rules must be applied already."""
        if state.cluster is not self._cluster:
            self._cluster = state.cluster
            self._recipes.clear()
            self._slices.clear()
        rows = [*self._together(view, state), *self._comings(view, state), *self._fresh(view)]
        if not rows:
            return view
        shared = SharedTable(
            option=np.repeat(np.arange(len(rows), dtype=np.int64), 2),
            job=np.asarray([row.jobs for row in rows], dtype=np.int64).reshape(-1),
            candidate=np.asarray([row.candidates for row in rows], dtype=np.int64).reshape(-1),
            iteration_s=np.asarray([row.pace_s for row in rows]).reshape(-1),
            gang=view.problem.shared.gang,
        )
        return replace(view, problem=with_shared(view.problem, shared))

    # --- two queued jobs ----------------------------------------------------------------------

    def _fresh(self, view: RoundView) -> Iterator[_Row]:
        groups = _queue(view)
        models = {key: view.slices[jobs[0]] for key, jobs in groups.items()}
        queued = sum(len(jobs) for jobs in groups.values())
        kinds = len(self._cluster.node_types) if self._cluster is not None else 1
        partners = min(self._params.partners, max(1, self._params.fresh // max(1, kinds * queued)))
        seen: set[tuple[int, int]] = set()
        for key, jobs in groups.items():
            ranked = self._ranked(models, key)
            for turn, job in enumerate(jobs):
                for other, recipes in _partners_of(groups, ranked, turn, job, partners):
                    pair = (min(job, other), max(job, other))
                    if pair not in seen:
                        seen.add(pair)
                        yield from _fresh_rows(view, (job, other), recipes)

    def _ranked(
        self, models: dict[int, ModelSlice], key: int
    ) -> list[tuple[int, tuple[_Recipe, ...]]]:
        """Return the slices that pair with slice ``key``, most gain first."""
        found = [(other, self._together_of(models[key], models[other])) for other in models]
        found = [(other, recipes) for other, recipes in found if recipes]
        return sorted(found, key=lambda entry: -max(r.gain for r in entry[1]))

    def _together_of(self, one: ModelSlice, two: ModelSlice) -> tuple[_Recipe, ...]:
        key = (id(one), id(two))
        if key not in self._recipes:
            self._slices[id(one)], self._slices[id(two)] = one, two
            self._recipes[key] = tuple(self._ask(one, two))
        return self._recipes[key]

    def _ask(self, one: ModelSlice, two: ModelSlice) -> Iterator[_Recipe]:
        assert self._cluster is not None
        for a, first in enumerate(one.rows):
            for b, second in enumerate(two.rows):
                same = one.node_class[a] == two.node_class[b] and first.scope == second.scope
                if not same or first.row.shape != second.row.shape:
                    continue
                kind = self._cluster.node_types[int(one.node_class[a])]
                pace_s = self._speeds.paired_iteration_s(
                    (one.model, two.model), (first.row.plan, second.row.plan), kind, first.row.shape
                )
                alone_s = first.row.iteration_s, second.row.iteration_s
                gain = _gain(alone_s, pace_s)
                if pace_s is not None and gain > self._params.least_gain:
                    yield _Recipe((a, b), pace_s, gain)

    # --- where a job runs already -------------------------------------------------------------

    def _together(self, view: RoundView, state: RoundState) -> Iterator[_Row]:
        """Yield pairs of running jobs that share GPUs and both stay."""
        gang = view.problem.shared.gang
        for two in np.flatnonzero(gang < np.arange(gang.size)).tolist():
            one = int(gang[two])
            held = view.states[one].running
            beside = view.states[two].running
            assert held is not None
            assert beside is not None
            kind = state.cluster.nodes[held.placement.nodes[0]].type
            models = view.states[one].job.model, view.states[two].job.model
            pace_s = self._speeds.paired_iteration_s(
                models, (held.plan, beside.plan), kind, held.placement.shape
            )
            if pace_s is not None:
                yield _Row((one, two), (-1, -1), pace_s)

    def _comings(self, view: RoundView, state: RoundState) -> Iterator[_Row]:
        """Yield pairs of a running job and a queued one that starts on its GPUs."""
        groups = _queue(view)
        turns: dict[tuple[str, int, Shape], int] = {}
        for host in np.flatnonzero(view.problem.jobs.running).tolist():
            held = view.states[host].running
            assert held is not None
            nodes = held.placement.nodes
            if view.states[host].job.guaranteed or not state.unavailable.isdisjoint(nodes):
                continue
            kind = state.cluster.node_types.index(state.cluster.nodes[nodes[0]].type)
            key = (view.states[host].job.model, kind, held.placement.shape)
            turn = turns[key] = turns.get(key, -1) + 1
            ranked = self._ranked_partners(view, groups, host, kind)
            for partner, (row, pace_s) in _turns_of(groups, ranked, turn, self._params.partners):
                yield from _coming(view, (host, partner), row, pace_s, kind)

    def _ranked_partners(
        self, view: RoundView, groups: dict[int, list[int]], host: int, node_class: int
    ) -> list[tuple[int, tuple[int, tuple[float, float]]]]:
        """Return rows and paces of queued slices that may share a job's GPUs, most gain first."""
        assert self._cluster is not None
        held = view.states[host].running
        assert held is not None
        shape, kind = held.placement.shape, self._cluster.node_types[node_class]
        span = topology_of(self._cluster).span(held.placement.nodes)
        alone_s = float(view.problem.jobs.stay_iteration_s[host])
        found: list[tuple[float, int, tuple[int, tuple[float, float]]]] = []
        for key, jobs in groups.items():
            model = view.slices[jobs[0]]
            for row, scoped in enumerate(model.rows):
                alike = scoped.row.shape == shape and int(scoped.scope) == int(span)
                if model.node_class[row] != node_class or not alike:
                    continue
                pace_s = self._speeds.paired_iteration_s(
                    (view.states[host].job.model, model.model),
                    (held.plan, scoped.row.plan),
                    kind,
                    shape,
                )
                gain = _gain((alone_s, scoped.row.iteration_s), pace_s)
                if pace_s is not None and gain > self._params.least_gain:
                    found.append((gain, key, (row, pace_s)))
        found.sort(key=lambda entry: -entry[0])
        best: dict[int, tuple[int, tuple[float, float]]] = {}
        for _, key, how in found:
            best.setdefault(key, how)
        return list(best.items())


def _gain(alone_s: tuple[float, float], pace_s: tuple[float, float] | None) -> float:
    """Return the summed fractions of their speeds that two jobs keep; 0 if they cannot share."""
    return 0.0 if pace_s is None else alone_s[0] / pace_s[0] + alone_s[1] / pace_s[1]


def _queue(view: RoundView) -> dict[int, list[int]]:
    """Return queued jobs without a guarantee by slice, least work left first."""
    jobs = view.problem.jobs
    work = jobs.iterations_left * jobs.request_iteration_s
    waiting = np.flatnonzero(~jobs.running & ~jobs.guaranteed)
    groups: dict[int, list[int]] = {}
    for job in waiting[np.argsort(work[waiting], kind="stable")].tolist():
        groups.setdefault(id(view.slices[job]), []).append(job)
    return groups


def _partners_of(
    groups: dict[int, list[int]],
    ranked: list[tuple[int, tuple[_Recipe, ...]]],
    turn: int,
    job: int,
    limit: int,
) -> Iterator[tuple[int, tuple[_Recipe, ...]]]:
    """Yield partners of job number ``turn`` of a slice: jobs of that number in other slices."""
    left = limit
    for key, recipes in ranked:
        others = [o for o in _around(groups[key], turn, 2) if o != job]
        if others and left > 0:
            left -= 1
            yield others[0], recipes


def _turns_of(
    groups: dict[int, list[int]],
    ranked: list[tuple[int, tuple[int, tuple[float, float]]]],
    turn: int,
    limit: int,
) -> Iterator[tuple[int, tuple[int, tuple[float, float]]]]:
    """Yield partners of job number ``turn`` among those that run alike, one per slice."""
    for key, how in ranked[:limit]:
        yield groups[key][turn % len(groups[key])], how


def _around(jobs: list[int], turn: int, count: int) -> list[int]:
    """Return ``count`` different jobs from position ``turn`` on, cyclically."""
    return [jobs[(turn + i) % len(jobs)] for i in range(min(count, len(jobs)))]


def _fresh_rows(
    view: RoundView, jobs: tuple[int, int], recipes: tuple[_Recipe, ...]
) -> Iterator[_Row]:
    table, nodes = view.problem.candidates, view.problem.nodes
    for recipe in recipes:
        alone = (
            int(view.offset[jobs[0]]) + recipe.rows[0],
            int(view.offset[jobs[1]]) + recipe.rows[1],
        )
        sets = {int(table.node_set[row]) for row in alone}
        kind = int(table.node_class[alone[0]])
        side = table.side[alone[0]] + table.side[alone[1]]
        largest = np.asarray(float(table.parts(alone[0])[0]))
        roomy = (amounts(side, largest) <= nodes.capacity[kind, 1:] * (1 + 1e-9)).all()
        # Jobs that are confined to different sets of nodes are not offered together.
        if roomy and len(sets - {0}) <= 1:
            yield _Row(jobs, alone, recipe.pace_s)


def _coming(
    view: RoundView,
    jobs: tuple[int, int],
    row: int,
    pace_s: tuple[float, float],
    node_class: int,
) -> Iterator[_Row]:
    problem = view.problem
    candidate = int(view.offset[jobs[1]]) + row
    side = _held_side(problem, jobs[0]) + problem.candidates.side[candidate]
    mine = problem.holds.job == jobs[0]
    most = problem.holds.demand[mine, 0].max()
    if (amounts(side, most) <= problem.nodes.capacity[node_class, 1:] * (1 + 1e-9)).all():
        yield _Row(jobs, (-1, candidate), pace_s)


def _held_side(problem: RoundProblem, job: int) -> Floats:
    """Return the side demand of a running job, shape (R - 1,)."""
    first = problem.holds.demand[problem.holds.job == job][0]
    return per_unit(first[1:], first[0])
