"""Climb of one round: the steps of `morph_opt.scheduling.decision.ladder`, level after level."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations import node_assignment
from formulations.arrays import Bools, Floats, Ints
from formulations.check_bound import check_bound
from formulations.knapsack import Tables
from formulations.prices import Prices, Relaxation, choose_prices
from formulations.prices.bound import rounded_up
from formulations.prices.choose import Chosen
from formulations.prices.many import SharedItems, prices_of_many, shared_items, with_fixed
from formulations.prices.placing import Placing, decided_by_prices
from formulations.prices.rounding import Rounding
from formulations.prices.slots import surplus_at
from formulations.round.rules import with_floor
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.subround import SubRound, residual_round, with_candidates
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.fallback import keep_and_fill
from morph_opt.scheduling.decision.method import Solved, StepTimes
from morph_opt.scheduling.decision.params import LadderParams
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.spread import floor_of, kept_as_is, unsure
from morph_opt.scheduling.decision.steps.blocks import decided_by_blocks
from morph_opt.scheduling.decision.steps.exact import Inside
from morph_opt.scheduling.decision.steps.freed import (
    branches_of,
    freed_for,
    most_offered,
    offered_of,
    worth_of,
)
from morph_opt.scheduling.decision.steps.knapsack import decided_by_tables, tables_of
from morph_opt.scheduling.decision.steps.known import Known
from morph_opt.scheduling.decision.steps.slots import slots_priced
from morph_opt.scheduling.decision.steps.turns import Turns
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, relative_gap

if TYPE_CHECKING:
    from morph_opt.scheduling.solvers.small_lp import SmallLp


@dataclass(frozen=True, slots=True)
class _Level:
    """Level that is climbed.

    Parameters
    ----------
    problem, level
        Round, with the floors of earlier levels as rows, and its goal.
    later
        Goals of the levels after this one.
    gap
        Requested gap.
    state
        Incumbent and bound; changes while the level is climbed.
    """

    problem: RoundProblem
    level: Level
    later: tuple[Level, ...]
    gap: float
    state: Known

    @property
    def reached(self) -> bool:
        """Whether the incumbent is within the gap of the bound."""
        return relative_gap(self.state.value, self.state.bound) <= self.gap


@dataclass(frozen=True, slots=True)
class Situation:
    """Properties of a priced round that decide which steps follow; see `Climb._by_prices`.

    Parameters
    ----------
    large
        Whether slots and residual rounds cost less than the exact round.
    short
        Whether nodes run out of threads, memory or another side resource. Choices by GPUs alone are
        then far from any decision. False for small rounds.
    compact
        Whether configurations were left out for the round's size, so that no exact model proves.
    """

    large: bool
    short: bool
    compact: bool

    @property
    def slots(self) -> bool:
        """Whether slots may be priced: the round is large and has all shapes."""
        return self.large and not self.compact


@dataclass(frozen=True, slots=True)
class _Guide:
    """Prices as a guide to better decisions.

    Parameters
    ----------
    surplus, reduced
        Surplus of each job and reduced value of each option at the prices of the bound, shapes (J,)
        and (O,).
    keeping
        Surplus of each job if jobs that stay pay what their leaving would free, shape (J,).
    bound
        Bound at these prices, against which losses at them count.
    """

    surplus: Floats
    reduced: Floats
    keeping: Floats
    bound: float


class Climb:
    """Climb of one round, level after level.

    Parameters
    ----------
    compact
        Whether the round was posed without configurations that no prices choose.
    again
        Whether a compact round is posed whole now, with a decision by prices at hand.
    deadline, settle
        End of the climb, and its end while there is no decision.
    by_rank
        Whether tables have each level by itself; False: a weighted sum of the levels (0020).
    """

    def __init__(
        self,
        solver: Solver,
        params: LadderParams,
        limits: Limits,
        compact: bool,
        again: bool,
        deadline: Deadline,
        settle: Deadline,
        by_rank: bool = True,
    ) -> None:
        self._solver, self._params, self._limits = solver, params, limits
        self._compact, self._again = compact, again
        self._deadline, self._settle = deadline, settle
        self._by_rank = by_rank
        self._times = StepTimes()
        # Rows and columns of the exact model solved last.
        self._size = (0, 0)
        # Columns of a level's exact round tried last: the next one has to be smaller by a factor.
        self._tried = np.iinfo(np.int64).max
        # Whether shapes make the gap, so that parts of rounds are worth a search for nodes.
        self._thorough = False
        self._floors: list[tuple[Level, float]] = []
        # Loss of each candidate at the prices of the level climbed last, and the bound at them.
        self._losses: tuple[Floats, float] | None = None
        # Tables of the level before, if it was solved by them.
        self._tables: Tables | None = None
        # Whether the search by tables ended because whole choices had no nodes.
        self._gave_up = False
        # Choices at the prices of the level that is climbed.
        self._rounding: Rounding | None = None

    def _until(self, at: _Level) -> Deadline:
        """Return the deadline that applies now."""
        return self._settle if at.state.selection is None else self._deadline

    def ranked(
        self, problem: RoundProblem, levels: tuple[Level, ...], best: Selection | None = None
    ) -> Solved:
        """Maximise the levels in order, each subject to what was reached for those before it."""
        whole, floors = problem, dict[int, list[tuple[Level, float]]]()
        # Tables of ranked levels have each level bind all later ones.
        self._by_rank = self._by_rank and not any(level.passing for level in levels)
        outcomes: list[Outcome] = []
        # Levels whose floors are no rows of the round yet, and losses at their prices.
        solved: list[tuple[Outcome, tuple[Floats, float] | None]] = []
        kept = np.ones(problem.candidates.count, dtype=bool)
        for rank, level in enumerate(levels):
            last = rank == len(levels) - 1
            gap = self._limits.gap if last else min(self._params.rank_gap, self._limits.gap)
            state = Known(best, -np.inf if best is None else best.value(level))
            if not self._attained(state, outcomes):
                for at, (outcome, losses) in enumerate(solved, rank - len(solved)):
                    reached, bound = outcome.objective, outcome.bound
                    floor = floor_of(problem, levels[at], reached, bound, self._params.tolerances)
                    floors[at] = [floor]
                    if losses is not None and not any(level.passing for level in levels):
                        kept = losses[0] <= _slack(losses[1], floor[1])
                    problem = with_floor(problem, at, *floor)
                solved.clear()
                if rank > 1 and levels[rank - 2].passing:
                    del floors[rank - 2]
                    exact = kept_as_is(levels[rank - 1], reached, self._params.tolerances)
                    floors[rank - 1] = list(exact)
                    problem = whole
                    for at, rows in floors.items():
                        for side, row in enumerate(rows):
                            problem = with_floor(problem, at + side * len(levels), *row)
                self._floors = [row for rows in floors.values() for row in rows]
                self._losses, self._tried = None, np.iinfo(np.int64).max
                self._over(kept, _Level(problem, level, levels[rank + 1 :], gap, state))
            outcomes.append(state.outcome(gap))
            if state.selection is None:
                break
            best = state.selection
            solved.append((outcomes[-1], self._losses))
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

    def _attained(self, state: Known, outcomes: list[Outcome]) -> bool:
        """Return whether the decision for earlier levels attains the tables' bound of this one."""
        if self._tables is None or not outcomes:
            return False
        self._tables = tables = self._tables.for_next(outcomes[-1].objective)
        if tables is None or state.value < tables.best - tables.rounding:
            return False
        state.bounded(tables.bound, "knapsack")
        return True

    def _over(self, kept: Bools, at: _Level) -> None:
        """Climb a level over candidates ``kept``, which are all that can keep earlier goals.

        An option that loses more at the prices of an earlier goal than its floor leaves is in no
        decision that keeps this goal (`docs/formulations/prices.md`). Tables that are at hand have
        all options.
        """
        if kept.all() or self._tables is not None:
            self._level(at)
            return
        state = at.state
        if state.selection is not None:
            chosen = state.selection.choice
            kept[chosen[(chosen >= 0) & (chosen < kept.size)]] = True
        part = with_candidates(at.problem, at.level, np.flatnonzero(kept))
        if state.selection is not None:
            state.selection = part.numbered(state.selection)
        whole = self._floors
        self._floors = [
            (Level(floor.name, floor.unit, floor.value[part.options]), least)
            for floor, least in whole
        ]
        later = tuple(
            Level(level.name, level.unit, level.value[part.options]) for level in at.later
        )
        self._level(replace(at, problem=part.problem, level=part.level, later=later))
        self._floors = whole
        if state.selection is not None:
            state.selection = part.merged(state.selection, state.selection)
        if self._losses is not None:
            loss = np.full(kept.size, np.inf)
            loss[kept] = self._losses[0]
            self._losses = loss, self._losses[1]

    def _level(self, at: _Level) -> None:
        """Climb until a decision of one level is within the gap; the ladder has a table of endings.

        Tables come first, as their bound is free of nodes and their choice mostly has some. Which
        step follows depends on what may still prove, so the order of the conditions matters.
        """
        problem, state = at.problem, at.state
        self._rounding = None
        tables = self._by_tables(at)
        if state.bound == -np.inf or self._done(at):
            return
        # What the tables' core left out is worth no more than `left_out`.
        reaches = tables is not None and state.value >= tables.items.left_out
        small = problem.candidates.count < self._params.small and not self._compact
        if problem.returns.count:
            # Prices know no nodes, on which the price of such a start depends.
            self._exact(at, None)
        elif tables is not None and reaches and small and not self._gave_up:
            self._in_reach(at, tables)
        elif self._is_tiny(problem):
            self._exact(at, None)
        else:
            self._by_prices(at)

    def _in_reach(self, at: _Level, tables: Tables) -> None:
        """Solve the exact round over options of better decisions, first over those of good ones.

        No decision worth ``good`` or more has another option than those in its reach (theorem 4 of
        knapsack.md), so the first round either proves its decision or is worth less and makes the
        second one smaller.
        """
        problem, state = at.problem, at.state

        def starts(least: float) -> Ints:
            kept = tables.items.option[tables.in_reach(least)]
            return np.sort(kept[(kept >= 0) & (kept < problem.candidates.count)])

        kept = starts(state.value)
        good = state.bound - self._params.reach * abs(state.bound)
        if kept.size >= self._params.reach_from and state.value < good:
            self._exact(at, starts(good), least=good)
            if self._done(at):
                return
            kept = starts(state.value)
        self._exact(at, kept)

    def _is_tiny(self, problem: RoundProblem) -> bool:
        """Return whether the exact round costs less than prices; see `TinyParams`."""
        tiny, options = self._params.tiny, problem.options.count
        if self._compact or options > max(tiny.columns, tiny.distinct_columns):
            return False
        columns = node_assignment.column_count(problem)
        alike = columns > tiny.distinct * options
        return columns <= (tiny.columns if alike else tiny.distinct_columns)

    def _by_tables(self, at: _Level) -> Tables | None:
        """Solve the round as a knapsack; return its tables, None if they are too large."""
        began = time.perf_counter()
        state, core = at.state, self._params.core
        tables = self._tables
        if tables is None:
            tables = tables_of(
                at.problem,
                at.level,
                self._floors,
                at.gap,
                params=core,
                later=at.later if self._by_rank else (),
                loss=self._params.tolerances.floor,
                by_rank=self._by_rank,
            )
        self._tables = tables if self._by_rank else None
        if tables is not None:
            self._decided(at, tables)
            if state.value < tables.items.left_out and not self._done(at):
                # A decision with nodes may need items that lose more than those of the core.
                least = state.value
                tables = tables_of(
                    at.problem, at.level, self._floors, at.gap, least, core, (), 0.0, self._by_rank
                )
                if tables is not None:
                    self._decided(at, tables)
        self._times.solve_ms += 1e3 * (time.perf_counter() - began)
        return tables

    def _decided(self, at: _Level, tables: Tables) -> None:
        """Search for the best decision by tables; take it and its bound."""
        problem, level, state = at.problem, at.level, at.state
        limits, deadline = self._part_limits(0.0), self._until(at)
        known = state.selection
        few = problem.nodes.count <= self._params.tiny.nodes and not self._compact
        found = decided_by_tables(
            problem, level, tables, known, self._solver, limits, self._params, deadline, few
        )
        self._gave_up = few and found.in_vain >= self._params.tiny.whole_choices
        state.selection, state.value = found.selection, found.value
        # That no choice of the options at hand has nodes proves nothing about shapes left out.
        bound = max(found.bound, tables.bound) if self._compact else found.bound
        state.bounded(bound, "knapsack")

    def _by_prices(self, at: _Level) -> None:
        """Climb by prices, slots and parts of the round.

        The order, by `Situation`; after each step the level ends if its gap is reached::

            prices: a bound ----------------------------- infeasible -> end
              |   many rows over several jobs: blocks, exact round if small -> end
              |   short and compact, few candidates ------------------> end: to be posed whole
              |   short and slots allowed: exact round over all candidates, then slots
              v
            nodes for the choice by prices (unless a decision by them is at hand, or by slots)
              |   gap above `shaped_gap`: shapes make it
              |     compact, not too many candidates -----------------> end: to be posed whole
              |   gap above `exact_gap`, slots allowed, not short, few columns: exact round
              |   gap above `shaped_gap`, slots allowed, not short: slots
              |     infeasible ---------------------------------------> end
              v
            large: residual rounds
              v
            exact round

        The exact round precedes slots, and parts of the round, if it has few columns: there may be
        many slots but few groups of equal candidates. Whether the gap is wide is known only after
        the choice by prices has nodes, so slots come after it, except where side resources are
        short, as that choice would hardly have any.
        """
        from morph_opt.scheduling.solvers.small_lp import SmallLp

        params, problem, level, state = self._params, at.problem, at.level, at.state
        relaxation, lp = Relaxation(problem, level), SmallLp()
        chosen, bound, items = self._priced(at, relaxation, lp)
        if bound == -np.inf or self._by_blocks(at, items, chosen, relaxation, lp):
            return
        self._rounding = rounding = Rounding(relaxation, chosen, lp)
        candidates = problem.candidates.count
        large = candidates >= params.small
        if problem.nodes.count <= params.tiny.nodes:
            large &= candidates > params.tiny.candidates
        short = large and bool(relaxation.shared.short.any())
        here = Situation(large, short, self._compact)
        if here.short and here.compact and params.may_be_whole(candidates, False):
            return
        slots, surplus = None, chosen.evaluation.surplus
        if here.short and here.slots:
            nothing = np.zeros(problem.jobs.count)
            inside = self._inside(at, nothing, level.value, np.inf)
            if self._settled(at, inside, params.exact_columns):
                return
            slots = self._slots(at, chosen, lp)
        if not self._again and slots is None:
            priced = time.perf_counter()
            state.better(problem, level, decided_by_prices(problem, rounding))
            self._times.place_ms += 1e3 * (time.perf_counter() - priced)
        missed = relative_gap(state.value, state.bound)
        wide = missed > params.shaped_gap
        if wide and here.compact and params.may_be_whole(candidates, True):
            return
        if (
            here.slots
            and not here.short
            and missed > params.exact_gap
            and self._settled(
                at,
                self._inside(at, surplus, rounding.reduced, bound),
                params.first_columns if wide else params.exact_columns,
            )
        ):
            return
        if wide and here.slots and not here.short and not self._done(at):
            slots = self._slots(at, chosen, lp)
        if state.bound == -np.inf:
            return
        guide = slots or _Guide(surplus, rounding.reduced, surplus, bound)
        inside = self._inside(at, guide.surplus, guide.reduced, guide.bound)
        self._losses = inside.loss, inside.bound
        if here.large:
            self._parts(at, relaxation, guide, inside)
        if not self._done(at):
            self._last(at, inside)

    def _priced(
        self, at: _Level, relaxation: Relaxation, lp: SmallLp
    ) -> tuple[Chosen, float, SharedItems | None]:
        """Return good prices, their bound, and the items if many rows concern several jobs."""
        began = time.perf_counter()
        problem, level, state, rows = at.problem, at.level, at.state, self._params.rows
        # Compact rounds left out shapes with smaller network shares (`decision.candidates`).
        free = relaxation.shared.network if self._compact else None
        items: SharedItems | None = None
        if relaxation.shared.count >= rows.many and problem.candidates.count >= self._params.small:
            items = shared_items(relaxation, free)
        if items is None or items.rows.size < rows.many:
            items, chosen = None, choose_prices(relaxation, lp=lp, free=free)
        else:
            chosen = prices_of_many(relaxation, items)
        prices = Prices.of_rows(problem, relaxation.shared, chosen.prices)
        bound = rounded_up(chosen.evaluation)
        check_bound(problem, level, prices, bound)
        state.bounded(bound, "prices")
        state.step = "prices"
        self._times.build_ms += 1e3 * (time.perf_counter() - began)
        return chosen, bound, items

    def _by_blocks(
        self,
        at: _Level,
        items: SharedItems | None,
        chosen: Chosen,
        relaxation: Relaxation,
        lp: SmallLp,
    ) -> bool:
        """Decide blocks of jobs by models without nodes; take their bound and place their choice.

        Then solve the exact round if it is small enough. Return whether the level ends, which it
        does not without items.

        With floors of earlier levels, other jobs are first decided around those that the floors are
        about. Then floors are priced, at multiples of their prices: those of whole options are
        higher than those of shares.
        """
        if items is None or self._done(at):
            return items is not None
        problem, level, state, rows = at.problem, at.level, at.state, self._params.rows
        self._rounding = rounding = Rounding(relaxation, chosen, lp)
        prices = chosen.prices
        began = time.perf_counter()
        gap = max(rows.gap_least, rows.gap_share * at.gap)
        limits = self._part_limits(gap, self._params.exact_branches)
        floors = np.isfinite(relaxation.shared.lower) & (prices < 0.0)

        def decided(items: SharedItems, factor: float) -> tuple[Ints, float]:
            own, until = np.where(floors, factor * prices, prices), self._until(at)
            return decided_by_blocks(
                relaxation, items, own, self._solver, limits, until, self._params
            )

        state.step = "exact"
        keeps = self._keeps(at)
        if keeps is not None and state.selection is not None:
            fixed = np.where(keeps, state.selection.choice, NONE)
            choice, _ = decided(with_fixed(items, relaxation, keeps, fixed), 1.0)
            placed = Placing(problem, rounding).placed(choice, state.selection, keeps)
            state.better(problem, level, placed)
        for factor in rows.factors if floors.any() else (1.0,):
            choice, bound = decided(items, factor)
            state.bounded(bound, "solver")
            state.better(problem, level, Placing(problem, rounding).placed(choice))
            if self._done(at):
                break
        self._times.solve_ms += 1e3 * (time.perf_counter() - began)
        if not self._done(at):
            surplus, bound = chosen.evaluation.surplus, rounded_up(chosen.evaluation)
            self._last(at, self._inside(at, surplus, rounding.reduced, bound))
        return True

    def _keeps(self, at: _Level) -> Bools | None:
        """Return the jobs that earlier levels are about, shape (J,); None without earlier levels.

        Their options attain the floors: other jobs are decided around them.
        """
        if not self._floors or at.state.selection is None:
            return None
        members, keeps = at.problem.options.members, np.zeros(at.problem.jobs.count, dtype=bool)
        for above, _ in self._floors:
            keeps[members.job[above.worth != 0.0]] = True
        return keeps

    def _inside(self, at: _Level, surplus: Floats, reduced: Floats, bound: float) -> Inside:
        """Return which candidates a better decision may contain, at prices."""
        return Inside(at.problem, at.level, surplus, reduced, bound, self._params.columns_per_hold)

    def _slots(self, at: _Level, chosen: Chosen, lp: SmallLp) -> _Guide | None:
        """Price slots: take their bound and their choice, return their guide; None if too many."""
        problem, level, state = at.problem, at.level, at.state
        began = time.perf_counter()
        priced = slots_priced(problem, level, chosen, lp, at.gap, self._params.slots)
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
        return _Guide(found.evaluation.surplus, reduced, surplus_at(slots, reduced), bound)

    def _parts(self, at: _Level, relaxation: Relaxation, guide: _Guide, inside: Inside) -> None:
        """Solve residual rounds of changing jobs, then the exact round once it is no larger."""
        if self._done(at):
            return
        problem, state = at.problem, at.state
        # If the round will be posed whole, larger residual rounds are left to that one.
        to_come = self._compact and self._params.may_be_whole(problem.candidates.count, False)
        turns = Turns(problem.nodes.count, self._thorough, not to_come, self._params.sub)
        surplus, reduced = guide.keeping, guide.reduced
        loss = surplus[problem.candidates.job] - reduced[: problem.candidates.count]
        tried = np.zeros(problem.jobs.count, dtype=bool)
        # Jobs, nodes and value of the last residual round: the same again has the same answer.
        last, solved = b"", False
        while state.selection is not None and not (turns.ended or self._done(at)):
            most, whole = turns.most, turns.count % 2 == 0
            large = most_offered(most[0], self._params.sub)
            if turns.fresh and self._last(at, inside, large):
                continue
            best = state.selection
            freed = freed_for(problem, best, relaxation, surplus, reduced, whole, most, tried)
            before, missing = state.value, state.bound - state.value
            this = b"".join(each.tobytes() for each in (*freed, np.array(before), best.choice))
            if this != last:
                solved = self._residual(at, freed, (loss, inside.alike))
            last = this
            tried |= freed[0]
            if turns.after(int(freed[1].sum()), state.value - before, missing, solved):
                tried[:] = False

    def _last(self, at: _Level, inside: Inside, most: int | None = None) -> bool:
        """Solve the exact round if it has at most ``most`` columns; return whether it was solved.

        None: at most `LadderParams.exact_columns`.
        """
        # An exact model of some candidates proves nothing about those that were left out.
        if self._compact:
            return False
        state, params = at.state, self._params
        # Losses at prices add up to the bound at these prices less the value. The level's bound may
        # be tighter, by tables or other prices, and would leave out options of better decisions.
        kept, size = inside.within(_slack(inside.bound, state.value))
        # A round that was tried ended on its limits: it is tried again only if it became smaller.
        largest = params.exact_columns if most is None else most
        if size > min(largest, self._tried // params.exact_shrinks):
            return False
        self._tried = size
        self._exact(at, kept, params.exact_branches)
        return True

    def _settled(self, at: _Level, inside: Inside, most: int) -> bool:
        """Solve the exact round if it has at most ``most`` columns; return whether the level ends.

        It is not solved if the level has ended already.
        """
        if not self._done(at):
            self._last(at, inside, most)
        return at.state.bound == -np.inf or self._done(at)

    def _done(self, at: _Level) -> bool:
        """Return whether the level ends: its gap is reached, or no time is left."""
        return at.reached or self._until(at).passed()

    def _residual(self, at: _Level, freed: tuple[Bools, Bools], offer: tuple[Floats, Ints]) -> bool:
        """Solve the exact round of some jobs on some nodes; return whether it had a decision.

        Parameters
        ----------
        freed
            Jobs and nodes, shapes (J,) and (N,).
        offer
            Loss and group number of each candidate, by which candidates are offered; shape (K,).
        """
        problem, level, state = at.problem, at.level, at.state
        assert state.selection is not None
        free, on = freed
        if not free.any():
            return False
        sub = self._params.sub
        missing = state.bound - state.value
        offered = offered_of(problem, state.selection, free, missing, *offer, sub)
        part = residual_round(problem, level, state.selection, free, on, offered)
        # The gap is one of the whole round, of whose value the part's own is a small share.
        best, before = state.selection, state.value
        here = worth_of(level, best, part.jobs)
        asked = max(at.gap * abs(before), missing)
        close = min(sub.gap_most, sub.gap_share * asked / max(abs(here), 1e-300))
        limits = self._part_limits(close, branches_of(part.problem, self._params))

        def known(choice: Ints) -> float:
            """Give a choice nodes as far as it has some; return the part's value with the gain.

            Infinity if the whole round's gap is reached: cuts of the part are then of no use.
            """
            assert self._rounding is not None
            wanted = part.merged(best, Selection(choice, ((),) * choice.size)).choice
            if state.better(problem, level, Placing(problem, self._rounding).placed(wanted)):
                state.step = "residual"
            return np.inf if at.reached else here + state.value - before

        solved = self._solved(at, part, limits, thorough=self._thorough, tight=True, known=known)
        if solved.selection is None:
            return state.value > before or relative_gap(here, solved.outcome.bound) <= close
        if state.better(problem, level, part.merged(best, solved.selection)):
            state.step = "residual"
        return True

    def _exact(
        self,
        at: _Level,
        kept: Ints | None,
        nodes: int | None = None,
        least: float = -np.inf,
    ) -> None:
        """Solve the exact round over candidates ``kept``, None for all; take decision and bound.

        ``kept`` must contain every candidate of a better decision worth ``least`` or more, or the
        bound is false.
        """
        problem, level, state = at.problem, at.level, at.state
        part = with_candidates(problem, level, kept)
        tight = problem.candidates.count >= self._params.small
        limits = self._part_limits(at.gap, nodes)

        def known(choice: Ints) -> float:
            """Give a choice nodes as far as it has some; return the value of the best decision."""
            if self._rounding is not None:
                nowhere = Selection(choice, ((),) * choice.size)
                wanted = part.merged(nowhere, nowhere).choice
                placed = Placing(problem, self._rounding).placed(wanted)
                state.better(problem, level, placed)
            return state.value

        solved = self._solved(at, part, limits, "either", thorough=True, tight=tight, known=known)
        outcome = solved.outcome
        state.step = "exact"
        if outcome.status is Status.INFEASIBLE and state.selection is None:
            state.bounded(least, "solver")
            return
        if solved.selection is not None:
            state.better(problem, level, part.merged(solved.selection, solved.selection))
        proven = -np.inf if outcome.status is Status.INFEASIBLE else outcome.bound
        # A solver's bound holds to a share of its largest cost, which is no more than `size`.
        sure = self._params.tolerances
        largest = float(np.abs(part.level.value).max(initial=0.0))
        size = min(largest, sure.wide * max(abs(proven), abs(state.value)))
        proven = max(proven + unsure(problem, size, sure), least)
        state.bounded(max(proven, state.value), "solver")
        if problem.nodes.count <= self._params.tiny.nodes and not at.reached:
            # A solver's first decisions of a hard round may be worth less than what runs.
            state.better(problem, level, keep_and_fill(problem, level))

    def _part_limits(self, gap: float, nodes: int | None = None) -> Limits:
        """Return the limits with a gap and at most ``nodes`` nodes, if the solver counts them."""
        limits = replace(self._limits, gap=gap)
        if nodes is None or not self._solver.capabilities.node_limit:
            return limits
        asked = nodes if limits.nodes is None else limits.nodes
        return replace(limits, nodes=min(nodes, asked))

    def _solved(
        self,
        at: _Level,
        part: SubRound,
        limits: Limits,
        formulation: str = "node_pattern",
        *,
        thorough: bool,
        tight: bool,
        known: Callable[[Ints], float],
    ) -> Solved:
        """Solve a part of the round exactly; add its time and note its size."""
        rounds = RoundSolver(
            self._solver,
            limits,
            formulation,
            thorough=thorough,
            tight=tight,
            params=self._params,
            deadline=self._until(at),
            known=known,
        )
        solved = rounds.ranked(part.problem, (part.level,))
        self._times.build_ms += rounds.clock.build_ms
        self._times.solve_ms += rounds.clock.solve_ms
        self._times.place_ms += rounds.clock.place_ms
        self._size = (solved.rows, solved.columns)
        return solved


def _slack(bound: float, least: float) -> float:
    """Return the largest loss at prices of an option of a decision worth ``least`` or more.

    Losses add up to the bound at these prices less the value. Rounding errors of sums at prices are
    far below 1e-12 of the bound.
    """
    return (bound - least) * (1 + 1e-9) + 1e-12 * abs(bound)
