"""The ladder: prices first, exact where it pays; it stops at the first step within the gap.

=============  =====================================================================================
step           what it does
=============  =====================================================================================
``prices``     a bound by prices, a choice dealt from their cuts, nodes for it
``slots``      the same with a price for every size of slot on nodes, where shapes make the gap
``residual``   the jobs that lose most, or decide by a hair, and some nodes as an exact round, the
               others as decided; again while that helps
``exact``      the exact round without the options that the bound shows to be in no better decision
=============  =====================================================================================

docs/formulations/prices.md has the mathematics. Deterministic but for the time limit, which ends
the ladder between two steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.check_bound import check_bound
from formulations.node_pattern.patterns import TooManyPatternsError
from formulations.prices import Prices, Relaxation, choose_prices
from formulations.prices.bound import evaluated, rounded_up
from formulations.prices.choose import Chosen
from formulations.prices.placing import decided_by_prices
from formulations.prices.rounding import Rounding
from formulations.prices.slots import SlotRelaxation
from formulations.round.check import RuleError, check
from formulations.round.rules import with_floor, with_promises
from formulations.round.tables import Level, RoundProblem, Selection
from formulations.subround import residual_round, with_candidates
from morph_opt.decision.freed import freed_for
from morph_opt.decision.method import Solved, StepTimes
from morph_opt.decision.pose import PosedRound
from morph_opt.decision.ranked import ExactMip, RoundSolver
from morph_opt.decision.spread import floor_of
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits, Outcome, Status, Stop, relative_gap
from morph_opt.solvers.small_lp import SmallLp

LARGE = 10_000
"""Candidates from which on rounds are not solved exactly at once, where the size decides."""

COMPACT = 100_000
"""Candidates from which on rounds for the ladder are posed compactly: prices choose no others."""

SHAPES = 0.01
"""Gap from which on slots are priced: less is due to single jobs, not to shapes."""

SLOT_EVALUATIONS = 100
"""Of the relaxation with slots, at most."""

MOST_SLOTS = 60
"""Kinds of slots up to which they are priced."""

FREE_JOBS, FREE_NODES = 100, 60
"""Jobs and nodes of a residual round at most."""

OFFERED = 0.3
"""Candidates of a residual round lose at most this share of what the gap is worth."""

MOST_OFFERED = 2_500
"""Candidates of a residual round at most, those that lose least."""

RESIDUAL_NODES = 300
"""Branch-and-bound nodes of a residual round at most."""

RESIDUALS = 6
"""Residual rounds of a level at most."""

SMALL = 2_000
"""Candidates below which the exact round, without what prices rule out, costs less than those."""

LARGEST_EXACT = 20_000
"""Candidates left up to which the exact round is tried."""

RANK_GAP = 1e-6
"""Gap that is asked of goals before the last."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Prices, residual rounds, and the exact round over what these leave.

    Parameters
    ----------
    solver
        Adapter for the exact parts.
    least
        Candidates from which on the ladder is climbed; smaller rounds are solved exactly at once.
    """

    solver: Solver
    least: int = 0

    @property
    def name(self) -> str:
        """``"ladder"``, or ``"auto"`` where small rounds are exact."""
        return "auto" if self.least else "ladder"

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """See `morph_opt.decision.method.RoundMethod`.

        Rounds with pairs, or with prices of starts that depend on where, are solved exactly.
        """
        problem, compact = posed.problem, posed.view.compact
        small = problem.candidates.count < self.least and not compact
        if problem.shared.count or problem.returns.count or small:
            return ExactMip(self.solver).solve(posed, limits)

        def climbed(under: RoundProblem, levels: tuple[Level, ...]) -> Solved:
            return _Climb(self.solver, limits, compact).ranked(under, levels)

        if not problem.jobs.guaranteed.any():
            return climbed(problem, posed.levels)
        kept = climbed(with_promises(problem), posed.levels)
        if kept.selection is not None:
            return replace(kept, promised=True)
        impossible = kept.outcomes[0].status is Status.INFEASIBLE
        ranked = climbed(problem, posed.unkept_levels)
        return replace(ranked, promised=False if impossible else None)


@dataclass
class _State:
    """What is known of one level."""

    selection: Selection | None
    value: float
    bound: float
    prices: Prices | None
    step: str = "prices"


class _Climb:
    """One round, level after level."""

    def __init__(self, solver: Solver, limits: Limits, compact: bool) -> None:
        self._solver = solver
        self._compact = compact
        self._limits = limits
        self._began_s = time.perf_counter()
        self._times = StepTimes()
        self._size = (0, 0)

    def _left_s(self) -> float:
        return self._limits.time_s - (time.perf_counter() - self._began_s)

    def ranked(self, problem: RoundProblem, levels: tuple[Level, ...]) -> Solved:
        """Maximise the levels in order, each within what was reached for those before it."""
        outcomes: list[Outcome] = []
        best: Selection | None = None
        for rank, level in enumerate(levels):
            last = rank == len(levels) - 1
            gap = self._limits.gap if last else min(RANK_GAP, self._limits.gap)
            state = self._level(problem, level, gap, best)
            outcomes.append(_outcome(state, gap))
            if state.selection is None:
                break
            best = state.selection
            if not last:
                floor = floor_of(problem, level, state.value, state.bound)
                problem = with_floor(problem, rank, *floor)
        return Solved(
            best, tuple(outcomes), levels, None, *self._size, None, self._times, state.step,
            state.prices is not None,
        )  # fmt: skip

    def _level(
        self, problem: RoundProblem, level: Level, gap: float, known: Selection | None
    ) -> _State:
        """Climb until a decision of one level is within the gap."""
        began = time.perf_counter()
        relaxation = Relaxation(problem, level)
        lp = SmallLp()
        # Compact rounds left out shapes with smaller network shares (`morph_opt.candidates`).
        free = relaxation.shared.network if self._compact else None
        chosen = choose_prices(relaxation, lp=lp, free=free)
        prices = Prices.of_rows(problem, relaxation.shared, chosen.prices)
        bound = rounded_up(chosen.evaluation)
        check_bound(problem, level, prices, bound)
        state = _State(known, -np.inf if known is None else known.value(level), bound, prices)
        priced = time.perf_counter()
        self._times.build_ms += 1e3 * (priced - began)
        if bound == -np.inf:
            return state
        rounding = Rounding(relaxation, chosen, lp)
        self._better(problem, level, state, decided_by_prices(problem, rounding))
        self._times.place_ms += 1e3 * (time.perf_counter() - priced)
        surplus, reduced = chosen.evaluation.surplus, rounding.reduced
        large = problem.candidates.count >= SMALL
        wide = relative_gap(state.value, state.bound) > SHAPES
        if large and wide and not self._done(state, gap):
            told = self._slots(problem, level, state, relaxation, chosen, lp, free)
            surplus, reduced = told or (surplus, reduced)
            if state.bound == -np.inf:
                return state
        failed = 0
        for at in range(RESIDUALS if large else 0):
            if self._done(state, gap) or state.selection is None or failed > 1:
                break
            most = FREE_JOBS, FREE_NODES
            freed = freed_for(
                problem, state.selection, relaxation, surplus, reduced, at % 2 == 0, most
            )
            better = self._residual(problem, level, state, freed, surplus, reduced, gap)
            failed = 0 if better else failed + 1
        # What an exact model of some candidates proves says nothing of those that are left out.
        if not self._done(state, gap) and not self._compact:
            self._exact(problem, level, state, surplus, reduced, gap)
        return state

    def _slots(
        self,
        problem: RoundProblem,
        level: Level,
        state: _State,
        relaxation: Relaxation,
        chosen: Chosen,
        lp: SmallLp,
        free: Bools | None,
    ) -> tuple[Floats, Floats] | None:
        """Prices of slots as a guide and as a bound; surplus and reduced values where that is less.

        A compact round has left out shapes that cost less at prices of slots: there they guide.
        """
        began = time.perf_counter()
        try:
            slots = SlotRelaxation(problem, level, chosen.evaluation.choice)
        except TooManyPatternsError:
            return None
        if slots.kinds > MOST_SLOTS:
            return None
        more = slots.shared.count - relaxation.shared.count
        unpriced = None if free is None else np.append(free, np.zeros(more, dtype=bool))
        start = slots.start(chosen.prices)
        found = choose_prices(slots, start, SLOT_EVALUATIONS, lp, unpriced, radius=0.6)
        self._times.build_ms += 1e3 * (time.perf_counter() - began)
        if self._better(
            problem, level, state, decided_by_prices(problem, Rounding(slots, found, lp))
        ):
            state.step = "slots"
        if self._compact:
            return None
        try:
            bound, surplus, reduced = evaluated(problem, relaxation, slots.prices(found.prices))
        except TooManyPatternsError:  # of an empty node, which no state of the guide was
            return None
        if bound.value >= state.bound:
            return None
        check_bound(problem, level, bound.prices, bound.value)
        state.bound, state.prices, state.step = bound.value, bound.prices, "slots"
        return surplus, reduced

    def _done(self, state: _State, gap: float) -> bool:
        return relative_gap(state.value, state.bound) <= gap or self._left_s() <= 0.0

    @staticmethod
    def _better(
        problem: RoundProblem, level: Level, state: _State, found: Selection | None
    ) -> bool:
        """Take a decision if it is one, and better; whether it was."""
        if found is None:
            return False
        value = found.value(level)
        if state.selection is not None and value <= state.value:
            return False
        try:
            check(problem, found)
        except RuleError:
            return False
        state.selection, state.value = found, value
        return True

    def _residual(
        self,
        problem: RoundProblem,
        level: Level,
        state: _State,
        freed: tuple[Bools, Bools],
        surplus: Floats,
        reduced: Floats,
        gap: float,
    ) -> bool:
        """An exact round of some jobs on some nodes; whether it was better."""
        assert state.selection is not None
        free, on = freed
        if not free.any():
            return False
        count = problem.candidates.count
        loss = surplus[problem.candidates.job] - reduced[:count]
        # Losses of a better decision add up to less than this; single ones are mostly far below.
        most = OFFERED * (state.bound - state.value)
        theirs = loss[free[problem.candidates.job]]
        if theirs.size > MOST_OFFERED:
            most = min(most, float(np.partition(theirs, MOST_OFFERED)[MOST_OFFERED]))
        offered = loss <= most
        chosen = state.selection.choice
        offered[chosen[(chosen >= 0) & (chosen < count)]] = True
        part = residual_round(problem, level, state.selection, free, on, offered)
        # In units of the whole round: the part's own value is a small share of it.
        here = sum(_worth_of(level, state.selection, job) for job in part.jobs.tolist())
        close = min(0.05, 0.1 * gap * abs(state.value) / max(abs(here), 1e-300))
        limits = self._part_limits(close)
        if self._solver.capabilities.node_limit:
            nodes = RESIDUAL_NODES if limits.nodes is None else limits.nodes
            limits = replace(limits, nodes=min(RESIDUAL_NODES, nodes))
        rounds = RoundSolver(self._solver, limits, thorough=False)
        solved = rounds.ranked(part.problem, (part.level,))
        self._count(rounds, solved)
        if solved.selection is None:
            return False
        better = self._better(problem, level, state, part.merged(state.selection, solved.selection))
        state.step = "residual" if better else state.step
        return better

    def _exact(
        self,
        problem: RoundProblem,
        level: Level,
        state: _State,
        surplus: Floats,
        reduced: Floats,
        gap: float,
    ) -> None:
        """The exact round over the options that may be in a better decision."""
        count = problem.candidates.count
        slack = state.bound - state.value if state.selection is not None else np.inf
        loss = surplus[problem.candidates.job] - reduced[:count]
        kept = np.flatnonzero(loss <= slack * (1 + 1e-9) + 1e-12 * abs(state.bound))
        if kept.size > LARGEST_EXACT:
            return
        part = with_candidates(problem, level, kept)
        rounds = RoundSolver(self._solver, self._part_limits(gap))
        solved = rounds.ranked(part.problem, (part.level,))
        self._count(rounds, solved)
        outcome = solved.outcome
        if outcome.status is Status.INFEASIBLE and state.selection is None:
            state.bound, state.step = -np.inf, "exact"
            return
        found = solved.selection
        if found is not None:
            found = part.merged(found, found)
            self._better(problem, level, state, found)
        proven = -np.inf if outcome.status is Status.INFEASIBLE else outcome.bound
        proven = max(proven, state.value)
        if proven < state.bound:
            state.bound, state.prices = proven, None
        state.step = "exact"

    def _part_limits(self, gap: float) -> Limits:
        return replace(self._limits, gap=gap, time_s=max(0.1, self._left_s()))

    def _count(self, rounds: RoundSolver, solved: Solved) -> None:
        self._times.build_ms += rounds.clock.build_ms
        self._times.solve_ms += rounds.clock.solve_ms
        self._times.place_ms += rounds.clock.place_ms
        self._size = (solved.rows, solved.columns)


def _worth_of(level: Level, decided: Selection, job: int) -> float:
    picked = int(decided.choice[job])
    return float(level.value[picked]) if picked >= 0 else 0.0


def _outcome(state: _State, gap: float) -> Outcome:
    """The end of a level in the words of solves."""
    if state.bound == -np.inf:
        status = Status.INFEASIBLE
    elif state.selection is None:
        status = Status.NO_SOLUTION
    else:
        reached = relative_gap(state.value, state.bound)
        status = Status.OPTIMAL if reached <= gap else Status.FEASIBLE
    return Outcome(
        status,
        Stop.PROVED if status in (Status.OPTIMAL, Status.INFEASIBLE) else Stop.NODE_LIMIT,
        "ladder",
        objective=float("nan") if state.selection is None else state.value,
        bound=max(state.bound, state.value),
        gap=relative_gap(state.value, state.bound) if state.selection is not None else float("inf"),
        message=state.step,
    )
