"""Hierarchical fairness by water filling: raise all, freeze who cannot rise, share out anew.

Gavel (OSDI'20), section 4.3. Every entity (tenant) has a weight. A *phase* gives each unfrozen job
its part of its entity's weight, raises ``s_i thr_i / p_i`` of all jobs at those rates as far as
the cluster allows, and freezes the jobs that cannot rise. The weights of an entity are split anew
over its unfrozen jobs (``fairness``), or all go to the one that came first (``fifo``).

Paper: a mixed-integer model with a big M finds who can still rise. Artifact: the same, and
without GLPK_MI it silently returns the first LP. Here: a job whose demand has a positive shadow
price cannot rise in *any* optimal answer, and every phase has such a job or one that is alone on
its fastest type; a linear model ends the filling as soon as nobody has headroom. No big M.

A job that reaches its own top speed is frozen without a model: the phases between two shortages
are followed on paper, and bisection finds the last one that fits the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from formulations.shares.kernel import Demands, reduced_model
from formulations.shares.model import fastest, headroom_model
from formulations.shares.problem import ShareProblem, equal_share_rates
from morph_opt.policies.gavel_kernel import Raised, Solve, lp_solver, raise_level, shrunk
from morph_opt.policies.gavel_shares import Shares

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FITS = 1e-9
"""Relative load above 1 that still counts as fitting the cluster."""

RISE = 1e-6
"""Part of a job's top speed below which headroom counts as none."""

HAIR = 1e-7
"""Relative room below a level already reached, so that rounding cannot make it infeasible."""

BELOW = ("fairness", "fifo")


@dataclass(frozen=True, slots=True)
class Entities:
    """Who the jobs belong to.

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
        """Weight of every job in this phase, shape (J,); 0 for frozen ones."""
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
    """Water filling over entities; the objective is the smallest ``s_i thr_i / p_i``.

    Raises
    ------
    ValueError
        If the problem has pairs: water filling with packing is not offered.
    """
    if problem.pairs.count:
        raise ValueError("pairs: water filling is defined without packing")
    filling = _Filling(problem, entities, solve or lp_solver())
    x = filling.run()
    level = problem.rates(x) / filling.unit
    worst = float(level.min())
    return Shares(x, np.zeros((0, problem.types)), worst, worst, solves=filling.solves)


class _Filling:
    """State of one filling: levels in units of ``s_i thr_i / p_i``."""

    def __init__(self, problem: ShareProblem, entities: Entities, solve: Solve) -> None:
        self.problem = problem
        self.entities = entities
        self.solve = solve
        self.unit = equal_share_rates(problem) / problem.gang
        self.top = fastest(problem) / self.unit
        self.level = np.zeros(problem.jobs)
        self.frozen = np.zeros(problem.jobs, dtype=bool)
        self.solves = 0

    def run(self) -> Floats:
        """Fill to the end; the shares, shape (J, T)."""
        x = np.zeros_like(self.problem.throughput)
        while not self.frozen.all():
            self._skip_own_tops()
            if self.frozen.all():
                return self._shares_at_levels()
            rate = self.entities.rates(self.frozen)
            raised = self._raise(rate)
            x = raised.x
            gained = max(0.0, raised.level)
            self._reach(self.level + gained * rate, x)
            asks = rate > 0
            stuck = raised.push * rate * self.unit > 1e-9
            at_top = self.level >= self.top * (1.0 - 1e-9)
            newly = asks & (stuck | at_top)
            # Degenerate duals: nobody named although the level stands still; all who ask stop.
            self.frozen |= newly if newly.any() else asks
            if not self.frozen.all() and stuck[asks].any() and not self._headroom():
                break
        return x

    def _raise(self, rate: Floats) -> Raised:
        """One phase; the bases are feasible, so a solver that says otherwise gets more room.

        HiGHS' presolve calls models on the edge of feasibility infeasible now and then.
        """
        for hair in (HAIR, 10.0 * HAIR):
            try:
                raised = raise_level(self._demands(self.level, rate, hair), self.solve)
            except ValueError:
                continue
            self.solves += raised.solves
            return raised
        raised = raise_level(self._demands(self.level, rate, 100.0 * HAIR), self.solve)
        self.solves += raised.solves
        return raised

    def _demands(self, level: Floats, rate: Floats, hair: float = HAIR) -> Demands:
        p = self.problem
        # Levels of the size of rounding errors are none: they only harm the solver's scaling.
        base = np.where(level < hair * self.top, 0.0, level * self.unit * (1.0 - hair))
        return Demands(p.speed, p.gang, p.capacity, base, rate * self.unit)

    def _headroom(self) -> bool:
        """Whether any unfrozen job can rise while all keep their levels."""
        room = np.where(self.frozen, 0.0, np.maximum(self.top - self.level, 0.0) * self.unit)
        base = self.level * self.unit * (1.0 - HAIR)
        outcome = self.solve(headroom_model(self.problem, base, room).model)
        self.solves += 1
        return outcome.x is None or outcome.objective > RISE

    def _reach(self, wanted: Floats, x: Floats) -> None:
        """Set the levels, to what the shares give where rounding left them below."""
        wanted = np.minimum(wanted, self.top)
        given = self.problem.rates(x) / self.unit
        self.level = np.where(given < wanted * (1.0 - 2.0 * HAIR), given, wanted)

    def _skip_own_tops(self) -> None:
        """Jump to the last state, on paper, in which only own top speeds stopped anybody."""
        states = self._trajectory()
        best, failed, step = 0, len(states), 1
        probe = len(states) - 1
        while best + 1 < failed:
            load, x = self._load(states[probe][0])
            if load <= 1.0 + FITS:
                best = probe
                level, self.frozen = states[best]
                self._reach(level, x)
            else:
                failed = probe
            # Galloping first: most often only a few jobs, or all, reach their own top.
            probe = best + step if best + step < failed else (best + failed) // 2
            step = 2 * step if best + step < failed else step

    def _trajectory(self) -> list[tuple[Floats, Bools]]:
        level, frozen = self.level.copy(), self.frozen.copy()
        states = [(level, frozen)]
        while not frozen.all():
            rate = self.entities.rates(frozen)
            asks = rate > 0
            step = float(((self.top - level)[asks] / rate[asks]).min())
            level = np.minimum(level + max(step, 0.0) * rate, self.top)
            frozen = frozen | (asks & (level >= self.top * (1.0 - 1e-12)))
            states.append((level, frozen))
        return states

    def _load(self, level: Floats) -> tuple[float, Floats]:
        demands = self._demands(level, np.ones_like(level))
        everyone = np.ones(level.size, dtype=bool)
        none = np.zeros(level.size, dtype=np.int64)
        reduced = reduced_model(demands, everyone, none, level=(0.0, 0.0), minimise_load=True)
        outcome = self.solve(reduced.model)
        self.solves += 1
        if outcome.x is None:
            return np.inf, np.zeros_like(demands.speed)
        x = reduced.shares(demands, outcome.x)[1]
        return -outcome.objective, shrunk(demands, x)

    def _shares_at_levels(self) -> Floats:
        return self._load(self.level)[1]
