"""GPUs and limits of rules that due jobs take one after the other, before a round is solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.rule_table import RULE_U
from formulations.round.rules import options_in_rules
from formulations.round.tables import RoundProblem
from formulations.tolerances import FEASIBILITY
from morph_opt.scheduling.decision.params import DueParams

Way = tuple[float, ...]
"""GPUs by node class with which a job can be served."""

FULL = "its GPUs do not fit next to jobs that are due before it or must keep running"
BEHIND = "waits for jobs that are due before it"
SHARE = "due jobs hold their share of the GPUs already"
RESERVED = "its GPUs are reserved as running jobs end"
PLANNED = "waits for its planned start"
TURN = "waits for the next turn of wide jobs"
NOWHERE = "the operator's rules and the open nodes leave it no configuration"


class Room:
    """GPUs by node class, and limits of rules, that jobs with a row leave to others.

    Parameters
    ----------
    problem
        Round without rows of due jobs.
    possible, may_idle
        See `formulations.prices.relaxation.possible_options`.
    params
        Number of divisions of GPUs over classes that are kept in mind.

    Attributes
    ----------
    may_idle
        Whether a job may be without GPUs, by rules about it alone, shape (J,).
    bound
        Whether a job must keep running, shape (J,).
    gpus
        GPUs of open nodes.
    """

    def __init__(
        self, problem: RoundProblem, possible: Bools, may_idle: Bools, params: DueParams
    ) -> None:
        self._problem, self._possible, self._params = problem, possible, params
        self.may_idle = may_idle
        nodes, holds = problem.nodes, problem.holds
        self._kinds = range(nodes.classes)
        gpus = nodes.capacity[nodes.node_class, 0]
        # GPUs of each class on open nodes of each set, shape (M, T).
        self._of_set = np.stack([self._by_class(nodes.open & one, gpus) for one in nodes.sets])
        free = self._of_set[0]
        self.gpus = float(free.sum())
        self.bound = ~may_idle & problem.jobs.running
        free = free - self.by_hold(self.bound[holds.job])
        # GPUs left after each way to divide what was taken, with the ways that jobs were served.
        self._left: Mapping[Way, tuple[Way, ...]] = {tuple(np.maximum(free, 0.0).tolist()): ()}
        self._limits = _Limits(problem, problem.options.stay[self.bound])

    def _by_class(self, chosen: Bools, gpus: Floats) -> Floats:
        nodes = self._problem.nodes
        found = np.bincount(nodes.node_class[chosen], gpus[chosen], minlength=nodes.classes)
        return np.asarray(found, dtype=np.float64)

    def by_hold(self, mine: Bools) -> Floats:
        """Return the GPUs by class of holds on open nodes."""
        nodes, holds = self._problem.nodes, self._problem.holds
        mine = mine & nodes.open[holds.node]
        kind = nodes.node_class[holds.node[mine]]
        return np.asarray(
            np.bincount(kind, holds.demand[mine, 0], minlength=nodes.classes), dtype=np.float64
        )

    def take(self, job: int, held: bool) -> str | None:
        """Serve a job, and return None; if it cannot be served, return why."""
        if held:
            options = self._problem.options.stay[job : job + 1]
            ways = [self._held(job)]
        else:
            options = self.starts_of(job)
            ways = self.ways(options)
        if not ways:
            return NOWHERE
        broken = self._limits.broken_by(options)
        if broken is not None:
            return f"the operator's rule {broken} leaves it too little"
        after = {
            tuple(had - taken for had, taken in zip(left, way, strict=True)): (*before, way)
            for left, before in self._left.items()
            for way in ways
            if all(had >= taken - FEASIBILITY for had, taken in zip(left, way, strict=True))
        }
        if not after:
            return FULL
        best = _undominated(sorted(after, reverse=True), self._params.divisions, most=True)
        self._left = {left: after[left] for left in best}
        self._limits.take(options)
        return None

    @property
    def division(self) -> tuple[Way, tuple[Way, ...]]:
        """GPUs left by the first division, and the ways in which it serves the jobs taken."""
        return next(iter(self._left.items()))

    def may_stay(self, job: int) -> bool:
        """Return whether the rules allow a running job to stay where it is."""
        return bool(self._possible[self._problem.options.stay[job]])

    def least_gpus(self, job: int, held: bool) -> float:
        """Return the least GPUs with which a job is served; 0 if it cannot be."""
        ways = [self._held(job)] if held else self.ways_of(job)
        return min((sum(way) for way in ways), default=0.0)

    def _held(self, job: int) -> Way:
        """Return the GPUs by class that a running job holds."""
        return tuple(self.by_hold(self._problem.holds.job == job).tolist())

    def ways_of(self, job: int) -> list[Way]:
        """Return the least GPUs by class with which a waiting job can be served."""
        return self.ways(self.starts_of(job))

    def gpus_of(self, option: int) -> Way:
        """Return the GPUs of an option by class."""
        return tuple(self._gpus[:, option].tolist())

    def starts_of(self, job: int) -> Ints:
        """Return the options in which a job may start alone within its nodes."""
        problem = self._problem
        mine = np.flatnonzero(problem.candidates.job == job)
        mine = mine[self._possible[mine]]
        fits = self._of_set[problem.candidates.node_set[mine]] >= self._gpus[:, mine].T
        return mine[fits.all(axis=1)]

    def ways(self, options: Ints) -> list[Way]:
        """Return the least GPUs by class with which options serve their job."""
        found = {tuple(way) for way in self._gpus[:, options].T.tolist()}
        return _undominated(sorted(found, key=lambda way: (sum(way), way)), len(found), most=False)

    @cached_property
    def _gpus(self) -> Floats:
        """GPUs of each option by class, shape (T, O)."""
        return np.stack([self._problem.options.gpus_on(kind) for kind in self._kinds])


def _undominated(ways: Sequence[Way], count: int, *, most: bool) -> list[Way]:
    """Return the first entries that no other one before them is as good as, at most ``count``.

    Parameters
    ----------
    most
        Whether more GPUs are better, as of those left; otherwise fewer are.
    """
    kept: list[Way] = []
    for way in ways:
        pairs = (zip(way, other, strict=True) for other in kept)
        if not any(all((a <= b) if most else (a >= b) for a, b in pair) for pair in pairs):
            kept.append(way)
    return kept[:count]


class _Limits:
    """Upper limits of the operator's rules, as a necessary condition for serving jobs together."""

    def __init__(self, problem: RoundProblem, bound: Ints) -> None:
        # Loaded with the first due job: replays without a solver start without scipy.
        from scipy import sparse

        rules, options = problem.rules, problem.options
        self._name, about = rules.name, options_in_rules(problem)
        refers = about >= 0
        signed = np.zeros(rules.count, dtype=bool)
        signed[rules.row[refers & (rules.value < 0)]] = True
        self._rows = np.flatnonzero(np.isfinite(rules.upper) & ~signed)
        entries = rules.value[refers], (rules.row[refers], about[refers])
        use = sparse.csr_array(entries, shape=(rules.count, options.count))
        self._use = sparse.csc_array(use[self._rows]) if self._rows.size else None
        relaxed = rules.upper.astype(np.float64)
        helps = np.flatnonzero((rules.kind == RULE_U) & (rules.value < 0))
        more = -rules.value[helps] * rules.aux_upper[rules.index[helps]]
        np.add.at(relaxed, rules.row[helps], more)
        self._left = relaxed[self._rows]
        if self._use is not None and bound.size:
            self._left -= np.asarray(self._use[:, bound].sum(axis=1)).reshape(-1)

    def _least(self, options: Ints) -> Floats:
        assert self._use is not None
        return np.asarray(self._use[:, options].toarray().min(axis=1))

    def broken_by(self, options: Ints) -> str | None:
        """Return the rule that every option breaks next to what is taken, or None."""
        if self._use is None:
            return None
        least = self._least(options)
        over = np.flatnonzero((least > FEASIBILITY) & (least > self._left + FEASIBILITY))
        return self._name[self._rows[over[0]]] if over.size else None

    def take(self, options: Ints) -> None:
        """Count the least use of a job with these options."""
        if self._use is not None:
            self._left -= self._least(options)
