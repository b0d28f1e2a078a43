"""The ladder: tables first, exact where it pays; it stops at the first step within the gap.

=============  =====================================================================================
step           what it does
=============  =====================================================================================
``knapsack``   the round as a knapsack over GPUs: its bound, its choice on nodes, or branch and
               bound by its tables; where these are too large it is left out
``prices``     a bound by prices, a choice rounded from their cuts, nodes for it
``slots``      the same with a price for every size of slot on nodes, where shapes make the gap;
               rounds that left shapes out for their size are posed whole for it
``residual``   the jobs that lose most, or whose choice is close, and some nodes as an exact round,
               the others as decided; again, and larger, while that helps
``exact``      the exact round without the options that the bound shows to be in no better decision
=============  =====================================================================================

docs/formulations/knapsack.md and prices.md have the mathematics. Deterministic but for the time
limit, which ends the ladder between two steps.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.check_bound import check_bound
from formulations.knapsack import Tables
from formulations.prices import Prices, Relaxation, choose_prices
from formulations.prices.bound import rounded_up
from formulations.prices.choose import Chosen
from formulations.prices.placing import decided_by_prices
from formulations.prices.rounding import Rounding
from formulations.prices.slots import surplus_at
from formulations.round.rules import with_floor, with_promises
from formulations.round.tables import Level, RoundProblem, Selection
from formulations.subround import SubRound, residual_round, with_candidates
from morph_opt.decision.method import Solved, StepTimes
from morph_opt.decision.pose import PosedRound, may_be_whole
from morph_opt.decision.ranked import ExactMip, RoundSolver
from morph_opt.decision.spread import WIDE, floor_of, unsure
from morph_opt.decision.steps.exact import Inside
from morph_opt.decision.steps.freed import (
    branches_of,
    freed_for,
    most_offered,
    offered_of,
    worth_of,
)
from morph_opt.decision.steps.knapsack import decided_by_tables, tables_of
from morph_opt.decision.steps.known import Known
from morph_opt.decision.steps.slots import slots_priced
from morph_opt.decision.steps.turns import Turns
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits, Outcome, Status, relative_gap

if TYPE_CHECKING:
    from morph_opt.solvers.small_lp import SmallLp

TABLES = 8_000_000
"""Additions of a round's knapsack tables at most: some ten milliseconds."""

COMPACT = 100_000
"""Candidates from which on rounds for the ladder are posed compactly: prices choose no others."""

SHAPES = 0.01
"""Gap from which on slots are priced: less is due to single jobs, not to shapes."""

SMALL = 2_000
"""Candidates below which the exact round, without what prices rule out, costs less than those."""

LARGEST_EXACT, EXACT_NODES, AGAIN = 8_000, 1_000, 2
"""Columns up to which the exact round is tried; its branch-and-bound nodes at most; and by what
part it is smaller where it is tried again."""

RANK_GAP = 1e-6
"""Gap that is asked of goals before the last."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """Prices, residual rounds, and the exact round over what these leave.

    Parameters
    ----------
    solver
        Adapter for the exact parts.
    """

    solver: Solver

    @property
    def name(self) -> str:
        """``"ladder"``."""
        return "ladder"

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """See `morph_opt.decision.method.RoundMethod`. Rounds with pairs are solved exactly."""
        if posed.problem.shared.count:
            return ExactMip(self.solver).solve(posed, limits)
        began = time.perf_counter()
        found = self._climbed(posed, limits, None)
        left = limits.time_s - (time.perf_counter() - began)
        wide = posed.view.compact and found.outcome.gap > limits.gap and left > 0.0
        if not (wide and may_be_whole(posed.problem, found.outcome.gap > SHAPES)):
            return found
        # Shapes that were left out may close the gap, and only with them something is proven.
        whole = posed.whole()
        known = None
        if found.selection is not None and not posed.problem.jobs.guaranteed.any():
            known = posed.view.numbered_in(whole.view, found.selection)
        again = self._climbed(whole, replace(limits, time_s=left), known)
        better = again.complete and again.outcome.gap < found.outcome.gap
        return replace(again, posed=whole) if better else found

    def _climbed(self, posed: PosedRound, limits: Limits, known: Selection | None) -> Solved:
        """The round as it is posed; ``known`` is a decision that is there already."""
        problem, compact = posed.problem, posed.view.compact

        def climbed(under: RoundProblem, levels: tuple[Level, ...]) -> Solved:
            again = known is not None
            return _Climb(self.solver, limits, compact, again).ranked(under, levels, known)

        if not problem.jobs.guaranteed.any():
            return climbed(problem, posed.levels)
        kept = climbed(with_promises(problem), posed.levels)
        if kept.selection is not None:
            return replace(kept, promised=True)
        impossible = kept.outcomes[0].status is Status.INFEASIBLE
        ranked = climbed(problem, posed.fallback_levels)
        return replace(ranked, promised=False if impossible else None)


class _Climb:
    """One round, level after level."""

    def __init__(self, solver: Solver, limits: Limits, compact: bool, again: bool) -> None:
        self._solver = solver
        self._compact = compact
        # Posed whole, with a decision by prices.
        self._again = again
        # Where shapes make the gap, parts of rounds are worth finding nodes for.
        self._thorough = False
        self._limits = limits
        self._began_s = time.perf_counter()
        self._times = StepTimes()
        self._size = (0, 0)
        self._tried = np.iinfo(np.int64).max
        self._floors: list[tuple[Level, float]] = []

    def _left_s(self) -> float:
        return self._limits.time_s - (time.perf_counter() - self._began_s)

    def ranked(
        self, problem: RoundProblem, levels: tuple[Level, ...], best: Selection | None = None
    ) -> Solved:
        """Maximise the levels in order, each within what was reached for those before it."""
        outcomes: list[Outcome] = []
        for rank, level in enumerate(levels):
            last = rank == len(levels) - 1
            gap = self._limits.gap if last else min(RANK_GAP, self._limits.gap)
            state = self._level(problem, level, gap, best)
            outcomes.append(state.outcome(gap))
            if state.selection is None:
                break
            best = state.selection
            if not last:
                floor = floor_of(problem, level, state.value, state.bound)
                self._floors.append(floor)
                problem = with_floor(problem, rank, *floor)
        return Solved(
            best,
            tuple(outcomes),
            levels,
            None,
            *self._size,
            None,
            self._times,
            state.step,
            state.bound_by,
        )

    def _level(
        self, problem: RoundProblem, level: Level, gap: float, known: Selection | None
    ) -> Known:
        """Climb until a decision of one level is within the gap."""
        state = Known(known, -np.inf if known is None else known.value(level))
        tables = self._by_tables(problem, level, state, gap)
        if state.bound == -np.inf or self._done(state, gap):
            return state
        # Prices know no nodes, on which the price of a start may depend.
        if problem.returns.count:
            self._exact(problem, level, state, None, gap)
        elif (
            tables is not None
            and state.value >= tables.items.left_out
            and problem.candidates.count < SMALL
            and not self._compact
        ):
            kept = tables.items.option[tables.in_reach(state.value)]
            kept = np.sort(kept[(kept >= 0) & (kept < problem.candidates.count)])
            self._exact(problem, level, state, kept, gap)
        else:
            self._by_prices(problem, level, state, gap)
        return state

    def _by_tables(
        self, problem: RoundProblem, level: Level, state: Known, gap: float
    ) -> Tables | None:
        """The round as a knapsack; its tables, unless they are too large."""
        began = time.perf_counter()
        tables = tables_of(problem, level, self._floors, TABLES, gap)
        if tables is not None:
            self._decided(problem, level, state, tables)
            if state.value < tables.items.left_out and not self._done(state, gap):
                # What has nodes and is better may lose more than the core does.
                least = state.value
                tables = tables_of(problem, level, self._floors, TABLES, gap, least)
                if tables is not None:
                    self._decided(problem, level, state, tables)
        self._times.solve_ms += 1e3 * (time.perf_counter() - began)
        return tables

    def _decided(self, problem: RoundProblem, level: Level, state: Known, tables: Tables) -> None:
        """The best decision by tables, and what nothing exceeds."""
        limits = self._part_limits(0.0)
        found = decided_by_tables(problem, level, tables, state.selection, self._solver, limits)
        state.selection, state.value = found.selection, found.value
        # That no choice of what was kept has nodes says nothing of shapes left out.
        bound = max(found.bound, tables.bound) if self._compact else found.bound
        state.bounded(bound, "knapsack")

    def _by_prices(self, problem: RoundProblem, level: Level, state: Known, gap: float) -> None:
        """From prices on."""
        from morph_opt.solvers.small_lp import SmallLp

        began = time.perf_counter()
        relaxation = Relaxation(problem, level)
        lp = SmallLp()
        # Compact rounds left out shapes with smaller network shares (`decision.candidates`).
        free = relaxation.shared.network if self._compact else None
        chosen = choose_prices(relaxation, lp=lp, free=free)
        prices = Prices.of_rows(problem, relaxation.shared, chosen.prices)
        bound = rounded_up(chosen.evaluation)
        check_bound(problem, level, prices, bound)
        state.bounded(bound, "prices")
        state.step = "prices"
        self._times.build_ms += 1e3 * (time.perf_counter() - began)
        if bound == -np.inf:
            return
        large = problem.candidates.count >= SMALL
        # Where nodes run out of threads or memory, choices by GPUs alone are far from any decision.
        short = large and bool(relaxation.shared.short.any())
        if short and self._compact and may_be_whole(problem, False):
            return  # to be posed whole
        by_slots = large and not self._compact
        if short and by_slots:
            # Slots may be many; candidates are not, where most jobs are alike.
            anything = Inside(problem, level, np.zeros(problem.jobs.count), level.value)
            self._last(problem, level, state, anything, LARGEST_EXACT, gap)
            if state.bound == -np.inf or self._done(state, gap):
                return
        slots = self._slots(problem, level, state, chosen, lp, gap) if short and by_slots else None
        rounding = Rounding(relaxation, chosen, lp)
        if not self._again and slots is None:
            priced = time.perf_counter()
            state.better(problem, level, decided_by_prices(problem, rounding))
            self._times.place_ms += 1e3 * (time.perf_counter() - priced)
        wide = relative_gap(state.value, state.bound) > SHAPES
        if wide and self._compact and may_be_whole(problem, True):
            return  # to be posed whole
        if by_slots and wide and not short and not self._done(state, gap):
            slots = self._slots(problem, level, state, chosen, lp, gap)
        if state.bound == -np.inf:
            return
        surplus = chosen.evaluation.surplus
        surplus, reduced, guide = slots or (surplus, rounding.reduced, surplus)
        inside = Inside(problem, level, surplus, reduced)
        if large:
            self._parts(problem, level, state, relaxation, guide, reduced, gap, inside)
        if not self._done(state, gap):
            self._last(problem, level, state, inside, LARGEST_EXACT, gap)

    def _slots(
        self,
        problem: RoundProblem,
        level: Level,
        state: Known,
        chosen: Chosen,
        lp: SmallLp,
        gap: float,
    ) -> tuple[Floats, Floats, Floats] | None:
        """Prices of slots as a guide and as a bound; None where they are too many.

        Surplus and reduced values of what the bound proves, and the surplus where jobs that run on
        pay what their leaving gives back, which tells which are to be decided anew.
        """
        began = time.perf_counter()
        priced = slots_priced(problem, level, chosen, lp, gap)
        if priced is None:
            return None
        slots, found = priced
        bound = rounded_up(found.evaluation)
        if state.bounded(bound, "prices"):
            check_bound(problem, level, slots.prices(found.prices), bound)
            state.step = "slots"
        self._times.build_ms += 1e3 * (time.perf_counter() - began)
        if bound == -np.inf:
            return None
        self._thorough = True
        rounding = Rounding(slots, found, lp)
        if state.better(problem, level, decided_by_prices(problem, rounding)):
            state.step = "slots"
        reduced = rounding.reduced
        return found.evaluation.surplus, reduced, surplus_at(slots, reduced)

    def _parts(
        self,
        problem: RoundProblem,
        level: Level,
        state: Known,
        relaxation: Relaxation,
        surplus: Floats,
        reduced: Floats,
        gap: float,
        inside: Inside,
    ) -> None:
        """Residual rounds, other jobs each time, and the exact one where it is no larger."""
        if self._done(state, gap):
            return
        # What is left for the round that is posed whole is not worth more than the first ones.
        to_come = self._compact and may_be_whole(problem, False)
        turns = Turns(problem.nodes.count, self._thorough, not to_come)
        loss = surplus[problem.candidates.job] - reduced[: problem.candidates.count]
        tried = np.zeros(problem.jobs.count, dtype=bool)
        while state.selection is not None and not (turns.ended or self._done(state, gap)):
            most, whole = turns.most, turns.count % 2 == 0
            large = most_offered(most[0])
            if turns.fresh and self._last(problem, level, state, inside, large, gap):
                continue
            best = state.selection
            freed = freed_for(problem, best, relaxation, surplus, reduced, whole, most, tried)
            before, missing = state.value, state.bound - state.value
            solved = self._residual(problem, level, state, freed, (loss, inside.alike), gap)
            tried |= freed[0]
            if turns.after(int(freed[1].sum()), state.value - before, missing, solved):
                tried[:] = False

    def _last(
        self,
        problem: RoundProblem,
        level: Level,
        state: Known,
        inside: Inside,
        most: int,
        gap: float,
    ) -> bool:
        """The exact round, where it has so many columns at most; whether it was tried."""
        # What an exact model of some candidates proves says nothing of those that are left out.
        if self._compact:
            return False
        slack = state.bound - state.value if state.selection is not None else np.inf
        kept, size = inside.within(slack * (1 + 1e-9) + 1e-12 * abs(state.bound))
        if size > min(most, self._tried // AGAIN):
            return False
        self._tried = size
        self._exact(problem, level, state, kept, gap, EXACT_NODES)
        return True

    def _done(self, state: Known, gap: float) -> bool:
        return relative_gap(state.value, state.bound) <= gap or self._left_s() <= 0.0

    def _residual(
        self,
        problem: RoundProblem,
        level: Level,
        state: Known,
        freed: tuple[Bools, Bools],
        offer: tuple[Floats, Ints],
        gap: float,
    ) -> bool:
        """An exact round of some jobs on some nodes; whether it had a decision.

        Candidates are offered by what they lose, and by numbers of those that are alike.
        """
        assert state.selection is not None
        free, on = freed
        if not free.any():
            return False
        missing = state.bound - state.value
        offered = offered_of(problem, state.selection, free, missing, *offer)
        part = residual_round(problem, level, state.selection, free, on, offered)
        # In units of the whole round: the part's own value is a small share of it.
        here = worth_of(level, state.selection, part.jobs)
        asked = max(gap * abs(state.value), missing)
        close = min(0.05, 0.1 * asked / max(abs(here), 1e-300))
        limits = self._part_limits(close, branches_of(part.problem))
        solved = self._solved(part, limits, thorough=self._thorough, tight=True)
        if solved.selection is None:
            return False
        if state.better(problem, level, part.merged(state.selection, solved.selection)):
            state.step = "residual"
        return True

    def _exact(
        self,
        problem: RoundProblem,
        level: Level,
        state: Known,
        kept: Ints | None,
        gap: float,
        nodes: int | None = None,
    ) -> None:
        """The exact round over the candidates that may be in a better decision; None: over all."""
        part = with_candidates(problem, level, kept)
        tight = problem.candidates.count >= SMALL
        solved = self._solved(part, self._part_limits(gap, nodes), thorough=True, tight=tight)
        outcome = solved.outcome
        state.step = "exact"
        if outcome.status is Status.INFEASIBLE and state.selection is None:
            state.bounded(-np.inf, "solver")
            return
        if solved.selection is not None:
            state.better(problem, level, part.merged(solved.selection, solved.selection))
        proven = -np.inf if outcome.status is Status.INFEASIBLE else outcome.bound
        # A solver is sure of its bound to a share of its largest cost, which is no more than this.
        largest = float(np.abs(part.level.value).max(initial=0.0))
        size = min(largest, WIDE * max(abs(proven), abs(state.value)))
        state.bounded(max(proven + unsure(problem, size), state.value), "solver")

    def _part_limits(self, gap: float, nodes: int | None = None) -> Limits:
        """What is left of the limits; with so many nodes at most, where the solver counts them."""
        limits = replace(self._limits, gap=gap, time_s=max(0.1, self._left_s()))
        if nodes is None or not self._solver.capabilities.node_limit:
            return limits
        asked = nodes if limits.nodes is None else limits.nodes
        return replace(limits, nodes=min(nodes, asked))

    def _solved(self, part: SubRound, limits: Limits, *, thorough: bool, tight: bool) -> Solved:
        """The exact answer for a part of the round; its time counts."""
        rounds = RoundSolver(self._solver, limits, thorough=thorough, tight=tight)
        solved = rounds.ranked(part.problem, (part.level,))
        self._times.build_ms += rounds.clock.build_ms
        self._times.solve_ms += rounds.clock.solve_ms
        self._times.place_ms += rounds.clock.place_ms
        self._size = (solved.rows, solved.columns)
        return solved
