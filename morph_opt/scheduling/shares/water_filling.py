"""Hierarchical fairness by water filling: raise all, freeze those that cannot rise, repeat.

Gavel (OSDI'20), section 4.3. Every entity (tenant) has a weight. A *phase* gives each unfrozen job
its part of its entity's weight, raises ``s_j thr_j / p_j`` of all jobs at those rates as far as
the cluster allows, and freezes the jobs that cannot rise. The weights of an entity are split anew
over its unfrozen jobs (``fairness``), or all go to the one that came first (``fifo``).

Paper: a mixed-integer model with a big M finds which can rise. Artifact: the same, and
without GLPK_MI it silently returns the first LP. Here: a job whose demand has a positive shadow
price cannot rise in *any* optimal answer, and every phase has such a job or one that is alone on
its fastest type; a linear model ends the filling as soon as nobody has headroom. No big M.

What keeps the number and the size of the models small, all of it exact:

* A job that reaches its own top speed is frozen without a model: the phases between two shortages
  are followed on paper (`_Paper`). GPU prices of a state that does not fit show in closed form
  that many others do not; the next state that is solved is the last one that they do not exclude.
* A job at its top speed runs on its fastest type all the time, and one that neither has nor needs
  anything takes nothing: neither needs a column.
* Feasible rises shrink from phase to phase, so one that cannot rise while all keep what they
  have never will (`_freeze_infeasible`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.shares.kernel import Demands, forced_patterns, reduced_model
from formulations.shares.model import fastest, headroom_model
from formulations.shares.patterns import affine_shares, price
from formulations.shares.problem import ShareProblem, equal_share_rates
from formulations.tolerances import ROUNDING, SAME_SPEED, SAME_VALUE, SMALLEST
from morph_opt.scheduling.shares.max_min import (
    Raised,
    Solve,
    lp_solver,
    raise_level,
    row_prices,
    shrunk,
)
from morph_opt.scheduling.shares.packed_max_min import granted
from morph_opt.scheduling.shares.parameters import FILLING
from morph_opt.scheduling.shares.policies import Shares

BELOW = ("fairness", "fifo")


@dataclass(frozen=True, slots=True)
class Entities:
    """Owners of the jobs.

    Parameters
    ----------
    entity
        Entity of each job, shape (J,), values in 0..E-1.
    entity_weight
        Weight of each entity, shape (E,), above 0.
    job_weight
        Weight of each job inside its entity, shape (J,), above 0.
    below
        ``"fairness"`` or ``"fifo"``; jobs are in order of arrival.
    """

    entity: Ints
    entity_weight: Floats
    job_weight: Floats
    below: str = "fairness"

    def __post_init__(self) -> None:
        if self.below not in BELOW:
            raise ValueError(f"below must be one of {', '.join(BELOW)}, got {self.below!r}")
        known = self.entity_weight.size
        strange = np.flatnonzero((self.entity < 0) | (self.entity >= known))
        if strange.size:
            job = int(strange[0])
            raise ValueError(f"job {job}: unknown entity {self.entity[job]}, there are {known}")
        if (self.entity_weight <= 0).any() or (self.job_weight <= 0).any():
            raise ValueError("weights of entities and jobs must be above 0")

    def rates(self, frozen: Bools) -> Floats:
        """Return the weight of every job in this phase, shape (J,); 0 for frozen ones."""
        live = np.where(frozen, 0.0, self.job_weight)
        if self.below == "fifo":
            waiting = np.flatnonzero(~frozen)
            _, first = np.unique(self.entity[waiting], return_index=True)
            live = np.zeros(frozen.size)
            live[waiting[first]] = 1.0
        total = np.bincount(self.entity, live, minlength=self.entity_weight.size)
        part = self.entity_weight / np.where(total > 0, total, 1.0)
        return np.asarray(live * part[self.entity])


def hierarchical(
    problem: ShareProblem, entities: Entities, *, solve: Solve | None = None
) -> Shares:
    """Fill over entities; the objective is the smallest ``s_j thr_j / p_j``.

    Raises
    ------
    ValueError
        If the problem has pairs: water filling with packing is not offered.
    """
    if problem.pairs.count:
        raise ValueError("pairs: water filling is defined without packing")
    filling = _Filling(problem, entities, solve or lp_solver())
    x, y = filling.run(), np.zeros((0, problem.types))
    x = granted(problem, x, y, filling.level * filling.unit * (1.0 - FILLING.slack))[0]
    level = problem.rates(x) / filling.unit
    worst = float(level.min())
    return Shares(x, y, worst, worst, solves=filling.solves)


class _Paper:
    """States of a filling in which jobs stop only at their top speed; needs no model."""

    def __init__(self, entities: Entities, top: Floats, level: Floats, frozen: Bools) -> None:
        self.states = [(level.copy(), frozen.copy())]
        self._entities = entities
        self._top = top

    @property
    def ended(self) -> bool:
        """Whether all jobs are at the top in the last state."""
        return bool(self.states[-1][1].all())

    def follow(self, count: int) -> None:
        """Compute states up to this number, or all there are."""
        while len(self.states) < count and not self.ended:
            level, frozen = self.states[-1]
            rate = self._entities.rates(frozen)
            asks = rate > 0
            step = float(((self._top - level)[asks] / rate[asks]).min())
            level = np.minimum(level + max(step, 0.0) * rate, self._top)
            self.states.append((level, frozen | (asks & (level >= self._top * (1.0 - ROUNDING)))))


class _Filling:
    """State of one filling: levels in units of ``s_j thr_j / p_j``."""

    def __init__(self, problem: ShareProblem, entities: Entities, solve: Solve) -> None:
        self.problem = problem
        self.entities = entities
        self.solve = solve
        self.unit = equal_share_rates(problem) / problem.gang
        self.top = fastest(problem) / self.unit
        self.level = np.zeros(problem.jobs)
        self.frozen = np.zeros(problem.jobs, dtype=bool)
        self.solves = 0
        room = problem.capacity > 0
        self.prices = np.where(room, 1.0 / np.where(room, problem.capacity, 1.0), 0.0)

    def run(self) -> Floats:
        """Fill to the end and return the shares, shape (J, T)."""
        x = np.zeros_like(self.problem.throughput)
        shortages, wait = 0, 1
        while not self.frozen.all():
            self._skip_own_tops()
            if self.frozen.all():
                return self._load(self.level)[1]
            rate = self.entities.rates(self.frozen)
            raised = self._raise(rate)
            x = raised.x
            gained = max(0.0, raised.level)
            self._reach(self.level + gained * rate, x)
            asks = rate > 0
            stuck = raised.push * rate * self.unit > SAME_VALUE
            at_top = self.level >= self.top * (1.0 - SAME_SPEED)
            newly = asks & (stuck | at_top)
            # Degenerate duals: none is named although the level is still; all that ask stop.
            self.frozen |= newly if newly.any() else asks
            shortages += int(stuck[asks].any())
            if shortages >= wait and not self.frozen.all():
                # Asking costs more than a phase: the less it finds, the rarer.
                wait = 1 if self._freeze_infeasible() else 2 * wait
                shortages = 0
        return x

    def _raise(self, rate: Floats) -> Raised:
        """Run one phase; relax the feasible bases if the solver calls them infeasible.

        HiGHS' presolve calls models on the edge of feasibility infeasible now and then.
        """
        for slack in (FILLING.slack, 10.0 * FILLING.slack):
            try:
                raised = raise_level(self._demands(self.level, rate, slack), self.solve)
            except ValueError:
                continue
            self.solves += raised.solves
            return raised
        raised = raise_level(self._demands(self.level, rate, 100.0 * FILLING.slack), self.solve)
        self.solves += raised.solves
        return raised

    def _demands(self, level: Floats, rate: Floats, slack: float = FILLING.slack) -> Demands:
        p = self.problem
        # Levels of the size of rounding errors are none: they only harm the solver's scaling.
        base = np.where(level < slack * self.top, 0.0, level * self.unit * (1.0 - slack))
        return Demands(p.speed, p.gang, p.capacity, base, rate * self.unit)

    def _holding(self) -> Demands:
        """Return the shares that keep the present level of all jobs."""
        return self._demands(self.level, np.zeros_like(self.level))

    def _freeze_infeasible(self) -> bool:
        """Freeze jobs whose level cannot rise; return whether any was frozen.

        Each model maximises the sum of the rises of the undecided, up to ``some`` of the way to
        the top each, so that there is room for many. Jobs that rise in it can; when its bound is 0,
        none of those left can.
        """
        if self.problem.types == 1:
            return self._freeze_if_full()
        holding = self._holding()
        undecided, pattern = ~self.frozen, forced_patterns(holding)
        pattern[undecided] = -1
        for _ in range(FILLING.passes):
            far = np.maximum(self.top - self.level, 0.0) * self.unit
            room = np.where(undecided, FILLING.some * far, 0.0)
            outcome = self.solve(headroom_model(self.problem, holding.base, room, pattern).model)
            self.solves += 1
            if outcome.x is None or outcome.row_duals is None:
                return False
            asked = np.flatnonzero((pattern < 0) & ((holding.base > 0) | (room > 0)))
            # The duals also bound what would be left without the slack that the bases leave.
            push = np.abs(outcome.row_duals[-asked.size :]) / self.problem.speed[asked].max(axis=1)
            slack = self.level[asked] * self.unit[asked] - holding.base[asked]
            if (
                outcome.objective - float(push @ np.maximum(slack, 0.0))
                <= FILLING.rise / FILLING.some
            ):
                self.frozen |= undecided
                return True
            risen = asked[outcome.x[-asked.size :] > FILLING.rise / FILLING.some]
            undecided[risen] = False
            # Jobs that have nothing and are decided need no column.
            pattern[risen[holding.base[risen] <= 0]] = 0
            if not undecided.any():
                return False
        return False

    def _freeze_if_full(self) -> bool:
        """Freeze all jobs if no GPU of the single type is left; return whether it was so."""
        p, undecided = self.problem, ~self.frozen
        per_rate = p.gang / p.speed[:, 0]
        left = float(p.capacity[0] - per_rate @ (self.level * self.unit))
        far = (per_rate * np.maximum(self.top - self.level, 0.0) * self.unit)[undecided]
        full = left <= FILLING.rise * float(far[far > 0.0].min(initial=np.inf))
        self.frozen |= full & undecided
        return full

    def _reach(self, wanted: Floats, x: Floats) -> None:
        """Set the levels, lowered to what the shares reach if rounding requires it."""
        wanted = np.minimum(wanted, self.top)
        given = self.problem.rates(x) / self.unit
        # What is nothing to a solver is granted at the end.
        short = (given < wanted * (1.0 - 2.0 * FILLING.slack)) & (wanted > FILLING.rise * self.top)
        self.level = np.where(short, given, wanted)

    def _skip_own_tops(self) -> None:
        """Jump to the last feasible state in which jobs stop only at their own top speed."""
        paper = _Paper(self.entities, self.top, self.level, self.frozen)
        paper.follow(2)
        while not paper.ended and not self._too_much(paper.states[-1][0]):
            paper.follow(2 * len(paper.states))
        states, best, failed = paper.states, 0, len(paper.states)
        while best + 1 < failed:
            failed = self._first_too_much(states, best, failed)
            if failed == best + 1:
                break
            probe = failed - 1
            load, x = self._load(states[probe][0])
            if load <= 1.0 + FILLING.fits:
                best = probe
                level, self.frozen = states[best]
                self._reach(level, x)
            else:
                failed = probe

    def _first_too_much(self, states: list[tuple[Floats, Bools]], fits: int, failed: int) -> int:
        """Return the first state between ``fits`` and ``failed`` that prices prove too large.

        Levels only grow along the states, so do their costs.
        """
        while fits + 1 < failed:
            middle = (fits + failed) // 2
            if self._too_much(states[middle][0]):
                failed = middle
            else:
                fits = middle
        return failed

    def _too_much(self, level: Floats) -> bool:
        """Return whether the prices prove that these levels do not fit."""
        d = self._demands(level, np.zeros_like(level))
        cost = price(d.speed, d.load, self.prices, d.base).cost.sum()
        return bool(cost > (self.prices @ d.capacity) * (1.0 + FILLING.fits))

    def _load(self, level: Floats) -> tuple[float, Floats]:
        """Return the smallest largest load of a type at these levels, and shares of this load.

        The prices of the last load often determine the shares at once; otherwise a model does, and
        its prices are kept.
        """
        d = self._demands(level, np.ones_like(level))
        constant, per_step = affine_shares(
            d.speed, price(d.speed, d.load, self.prices, d.base).best
        )
        x = constant + per_step * d.base[:, None]
        used = d.load @ x
        if (used <= d.capacity).all() and x.min(initial=0.0) >= 0.0:
            return float((used / np.maximum(d.capacity, SMALLEST)).max()), x
        pattern = forced_patterns(replace(d, slope=np.zeros_like(level)))
        free = pattern < 0
        reduced = reduced_model(d, free, pattern, level=(0.0, 0.0), minimise_load=True)
        outcome = self.solve(reduced.model)
        self.solves += 1
        if outcome.x is None:
            return np.inf, np.zeros_like(d.speed)
        prices = row_prices(outcome, d.capacity, int(free.sum()))
        self.prices = prices if prices.any() else self.prices
        x = reduced.shares(d, outcome.x)[1]
        return -outcome.objective, shrunk(d, x)
