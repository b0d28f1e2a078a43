"""Solve a round with exact MIPs: ranked levels, cuts until the choice has nodes, exact placement.

`RoundSolver._placed` has the loop and its invariant. `CutParams` ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from formulations import node_assignment, node_pattern
from formulations.arrays import Ints
from formulations.knapsack import placed_by_places
from formulations.layout import RoundModel, cut_distinct, forbid
from formulations.linear_model import LinearModel
from formulations.node_pattern.cells import side_is_scarce
from formulations.node_pattern.patterns import TooManyPatternsError
from formulations.objectives import kept
from formulations.round.decode import (
    in_place_fits,
    pack,
    pack_slots,
    restricted,
    with_partners,
    without_jobs,
)
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.core.domain import InputError
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.method import Solved, StepTimes
from morph_opt.scheduling.decision.params import DEFAULTS, LadderParams
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.decision.pricing import solve_priced
from morph_opt.scheduling.decision.spread import narrowed, unsure, widened
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop, relative_gap


@dataclass(frozen=True, slots=True)
class ExactMip:
    """The round as one MILP per level; see `RoundSolver`.

    Parameters
    ----------
    solver
        Adapter.
    formulation
        One of `RoundSolver.FORMULATIONS`.
    params
        Sizes of models and numbers of cuts.
    """

    solver: Solver
    formulation: str = "node_pattern"
    params: LadderParams = DEFAULTS

    @property
    def name(self) -> str:
        """Name of the formulation."""
        return self.formulation

    def solve(self, posed: PosedRound, limits: Limits) -> Solved:
        """Solve a round; see `morph_opt.scheduling.decision.method.RoundMethod`."""
        rounds = RoundSolver(self.solver, limits, self.formulation, params=self.params)
        return rounds.guaranteed(posed.problem, posed.levels, posed.fallback_levels)


def whole_model(
    posed: PosedRound, method: ExactMip, limits: Limits
) -> tuple[LinearModel, float, str]:
    """Return the round as one MIP: the last model that a solver is given.

    The round is solved within the limits first, as rows hold promises and earlier goals at their
    optima, and cut off choices without nodes.

    Returns
    -------
    LinearModel
        The model, its largest objective coefficient being 1.
    float
        Value of the goal per unit of that objective.
    str
        Name of the goal.

    Raises
    ------
    InputError
        If the rules leave no decision.
    """
    solved = method.solve(posed.whole() if posed.view.compact else posed, limits)
    if solved.outcomes[0].status is Status.INFEASIBLE:
        raise InputError("the rules leave no decision", field="rules")
    assert solved.model is not None
    model, unit = solved.model.model, solved.model.model.scale
    return model.with_objective(model.cost / unit), unit, solved.levels[-1].name


@dataclass(frozen=True, slots=True)
class _Placed:
    """Decision of one level, None if there is none, and the model with its cuts."""

    selection: Selection | None
    outcome: Outcome
    built: RoundModel


class RoundSolver:
    """Solver of one `RoundProblem` under ranked levels.

    Parameters
    ----------
    solver
        Adapter.
    limits
        Limits of each solve; all solves of the round share the time.
    formulation
        One of `FORMULATIONS`, or ``"either"``: the one that `NamedParams` chooses.
    thorough
        If False, stop after `CutParams.few_cuts` cuts; used for residual rounds, whose answer
        proves nothing about the round.
    tight
        Whether ``node_pattern`` has rows ``beside``, which pay where many jobs run.
    params
        Sizes of models and numbers of cuts.
    deadline
        End of the round's time; None for the limits' time from now on.
    known
        Function that returns the value of the best decision known, given a choice without nodes. A
        level ends once that is within the gap, without a decision of its own; infinity ends it at
        once. None if there is no other decision.
    """

    FORMULATIONS = ("node_pattern", "node_assignment")

    def __init__(
        self,
        solver: Solver,
        limits: Limits,
        formulation: str = "node_pattern",
        thorough: bool = True,
        tight: bool = False,
        params: LadderParams = DEFAULTS,
        deadline: Deadline | None = None,
        known: Callable[[Ints], float] | None = None,
    ) -> None:
        self._known = known
        self._tight = tight
        self._thorough = thorough
        self._solver = solver
        self._limits = limits
        self._deadline = deadline or Deadline(limits.time_s)
        self._formulation = formulation
        self._params, self._most = params, params.cuts
        self.clock = StepTimes()
        # Columns of all placement questions so far.
        self._asked = 0

    def ranked(
        self, problem: RoundProblem, levels: tuple[Level, ...], base: RoundModel | None = None
    ) -> Solved:
        """Maximise the levels in order, each subject to the optima of those before it."""
        built = posed = base or self.build(problem, levels[0])
        best: Selection | None = None
        outcomes: list[Outcome] = []
        # Model before a level that binds the next one alone.
        free: RoundModel | None = None
        for rank, level in enumerate(levels):
            built = replace(built, model=built.model.with_objective(built.layout.cost(level)))
            before = built
            last = rank == len(levels) - 1
            found = self._placed(
                problem, built, self._params.rank_gap if not last else self._limits.gap
            )
            outcomes.append(found.outcome)
            # An explanation asks the last model why it forbids an option: the reason must be a row.
            built = _with_limits_of(found.built, posed) if last else found.built
            if found.selection is None:
                break
            best = found.selection
            if not last:
                slack = self._params.tolerances.floor
                if free is not None:
                    # Nothing more either: what it would have beyond that, others were to keep.
                    built, value = free, best.value(level)
                    more = replace(level, value=-level.value)
                    cap = self._params.tolerances.cap
                    built = _at_least(built, more, len(levels) + rank, -value, cap)
                free = before if level.passing else None
                built = _at_least(built, level, rank, best.value(level), slack)
        return Solved(
            best,
            tuple(outcomes),
            levels,
            None,
            built.model.rows,
            built.model.columns,
            built,
            self.clock,
        )

    def guaranteed(
        self,
        problem: RoundProblem,
        levels: tuple[Level, ...],
        fallback: tuple[Level, ...],
        base: RoundModel | None = None,
    ) -> Solved:
        """Maximise the levels under promises as rows, or ``fallback`` if that is impossible."""
        if not problem.jobs.guaranteed.any():
            return self.ranked(problem, levels, base)
        base = base or self.build(problem, levels[0])
        solved = self.ranked(problem, levels, with_guarantees(problem, base))
        if solved.outcomes[0].status is not Status.INFEASIBLE:
            if solved.selection is not None:
                return replace(solved, promised=True)
            return replace(solved, kept_bounds=tuple(one.bound for one in solved.outcomes))
        ranked = self.ranked(problem, fallback, base)
        return replace(ranked, promised=False)

    def build(self, problem: RoundProblem, level: Level) -> RoundModel:
        """Build the round's model in the chosen formulation."""
        began = time.perf_counter()
        built = self._built(problem, level)
        self.clock.build_ms += 1e3 * (time.perf_counter() - began)
        return built

    def _built(self, problem: RoundProblem, level: Level) -> RoundModel:
        if self._formulation != "node_assignment" and not self._is_hardly_alike(problem):
            try:
                counted = node_pattern.build(problem, level, self._tight)
            except TooManyPatternsError:
                # Naming nodes is smaller than counting the many ways in which they can be cut.
                return node_assignment.build(problem, level)
            most = self._params.named.share * counted.model.columns
            if not self._may_be_named(problem, most):
                return counted
        return node_assignment.build(problem, level)

    def _is_hardly_alike(self, problem: RoundProblem) -> bool:
        """Return whether pairs are on nodes that are hardly alike: counting both costs most."""
        if not problem.shared.count:
            return False
        tiny = self._params.tiny
        most = min(tiny.distinct_columns, tiny.distinct * problem.options.count)
        return self._may_be_named(problem, most)

    def _may_be_named(self, problem: RoundProblem, most: float) -> bool:
        """Return whether a model with named nodes is allowed and has at most ``most`` columns."""
        options = problem.options.count
        if self._formulation != "either" or options > min(most, self._params.named.counted):
            return False
        return node_assignment.column_count(problem) <= most

    def _time_s(self) -> float:
        """Return the seconds left to the round, or a few for a solve that starts late."""
        least = min(self._params.late_s, self._limits.time_s)
        return max(least, self._deadline.left_s())

    def _placed(self, problem: RoundProblem, built: RoundModel, gap: float) -> _Placed:
        """Solve a level until its choice has nodes; cut off choices that have none."""
        # Invariant: `unproven` is an upper bound on all choices that were cut off and not shown to
        # be impossible; every bound returned is the larger of it and the solver's.
        # Termination: each pass adds one of finitely many cuts, at most `CutParams.cuts` of choices
        # or halves the largest cost (`narrowed`).
        serial = sum(block.family == "not_again" for block in built.model.row_blocks)
        unproven = float("-inf")
        known: _Placed | None = None
        while True:
            outcome = self._solve(built, gap)
            if outcome.x is None:
                outcome = widened(
                    outcome, unsure(problem, built.model.scale, self._params.tolerances), gap
                )
                none = _Placed(None, _with_unproven(outcome, unproven, gap), built)
                return _better(known, none, gap)
            began = time.perf_counter()
            selection, impossible = self._decode(problem, built, outcome)
            self.clock.place_ms += 1e3 * (time.perf_counter() - began)
            if selection is not None:
                outcome = _with_unproven(outcome, unproven, gap)
                less, outcome = narrowed(problem, built, outcome, gap, self._params.tolerances)
                known = _better(known, _Placed(selection, outcome, built), gap)
                if less is None or self._deadline.passed():
                    return known
                built = less
                continue
            assert outcome.x is not None
            if self._deadline.passed():
                none = _Placed(None, _given_up(outcome, unproven, Stop.TIME_LIMIT), built)
                return _better(known, none, gap)
            if self._suffices(problem, built, outcome, unproven, gap):
                none = _Placed(None, _given_up(outcome, unproven, Stop.NODE_LIMIT), built)
                return _better(known, none, gap)
            if self._is_named_now(problem, built):
                built = self._with_named_nodes(problem, built)
                continue
            cut = cut_distinct(problem, built, outcome.x)
            if cut is None and serial >= self._most_cuts(built):
                cut = self._with_named_nodes(problem, built) if self._may_name(problem) else None
                if cut is None:
                    none = _Placed(None, _given_up(outcome, unproven, Stop.NODE_LIMIT), built)
                    return _better(known, none, gap)
            if cut is None:
                choice = built.layout.choice(problem, outcome.x)
                if impossible:
                    began = time.perf_counter()
                    choice = self._impossible_part(problem, choice)
                    self.clock.place_ms += 1e3 * (time.perf_counter() - began)
                else:
                    unproven = max(unproven, outcome.bound)
                cut = forbid(built, choice, serial)
                serial += 1
            built = cut

    def _suffices(
        self,
        problem: RoundProblem,
        built: RoundModel,
        outcome: Outcome,
        unproven: float,
        gap: float,
    ) -> bool:
        """Return whether a decision known elsewhere is within the gap of the bound."""
        if self._known is None or outcome.x is None:
            return False
        value = self._known(built.layout.choice(problem, outcome.x))
        sure = unsure(problem, built.model.scale, self._params.tolerances)
        return value == np.inf or relative_gap(value, max(outcome.bound, unproven) + sure) <= gap

    def _impossible_part(self, problem: RoundProblem, choice: Ints) -> Ints:
        """Return a small impossible part of an impossible choice, which gives a stronger cut.

        Remove jobs, stays first, as long as the rest is proven to be impossible: half of them at a
        time, then a quarter, down to single ones (Zeller, Hildebrandt 2002), so that hundreds of
        jobs become few in few questions. Packing quickly finds nodes for most of these rests.
        """
        in_place = np.isin(choice, problem.options.stays)
        jobs = np.concatenate([np.flatnonzero(in_place), np.flatnonzero(~in_place & (choice >= 0))])
        part, columns, most = choice, self._asked, self._most
        proofs = 0 if self._thorough else most.proofs
        size = jobs.size
        while size > 1:
            size = -(-size // 2)
            jobs = jobs[part[jobs] != NONE]
            for first in range(0, jobs.size, size):
                asked = self._asked - columns
                if proofs >= most.proofs or asked >= most.proof_columns or self._deadline.passed():
                    return part
                fewer = without_jobs(part, jobs[first : first + size])
                if any(pack(problem, fewer, order) is not None for order in ("size", "parts")):
                    continue
                proofs += 1
                if self.exact_placement(problem, fewer)[1]:
                    part = fewer
        return part

    def _solve(self, built: RoundModel, gap: float) -> Outcome:
        """Solve with the objective scaled to a largest coefficient of 1; report it unscaled."""
        cost, scale = built.model.cost, built.model.scale
        limits = replace(self._limits, gap=gap, time_s=self._time_s())
        scaled = replace(built, model=built.model.with_objective(cost / scale))
        outcome = solve_priced(self._solver, scaled, limits, self._params)
        self.clock.build_ms += 1e3 * outcome.build_s
        self.clock.solve_ms += 1e3 * (outcome.solve_s + outcome.check_s)
        return replace(outcome, objective=outcome.objective * scale, bound=outcome.bound * scale)

    def _decode(
        self, problem: RoundProblem, built: RoundModel, outcome: Outcome
    ) -> tuple[Selection | None, bool]:
        """Return an incumbent's decision, or whether its choice provably has no nodes."""
        assert outcome.x is not None
        if built.distinct is None:
            return node_assignment.read_nodes(problem, built, outcome.x), False
        choice = built.layout.choice(problem, outcome.x)
        for order in ("size", "parts"):
            selection = pack(problem, choice, order)
            if selection is not None:
                return selection, False
        selection = pack_slots(problem, choice)
        if selection is not None:
            return selection, False
        return self.exact_placement(problem, choice) if self._thorough else (None, False)

    def _most_cuts(self, built: RoundModel) -> int:
        """Return how many choices are cut off in a model, at most."""
        most = self._most
        if not self._thorough:
            return most.few_cuts
        return min(most.cuts, max(most.few_cuts, most.cut_columns // built.model.columns))

    def _is_named_now(self, problem: RoundProblem, built: RoundModel) -> bool:
        """Return whether nodes are named now that a choice of the model has none.

        Where GPUs alone run out, few cuts do, and each is strong.
        """
        named = self._params.named
        most = named.cut_share * built.model.columns
        if side_is_scarce(problem):
            most = max(named.cut_columns, most)
        return self._may_name(problem) and self._may_be_named(problem, most)

    def _may_name(self, problem: RoundProblem) -> bool:
        """Return whether the same round with named nodes is small enough."""
        parts = problem.options.starts.part_gpus.size
        return self._thorough and parts * problem.nodes.count <= self._most.named_parts

    def _with_named_nodes(self, problem: RoundProblem, built: RoundModel) -> RoundModel:
        """Return the same round with named nodes."""
        plain = Level("plain", "", np.zeros(problem.options.count))
        named = node_assignment.build(problem, plain)
        cost = np.zeros(named.model.columns)
        cost[named.layout.x] = built.model.cost[built.layout.x]
        named = replace(named, model=named.model.with_objective(cost))
        return _with_limits_of(named, built).with_rows_of(built)

    def exact_placement(self, problem: RoundProblem, choice: Ints) -> tuple[Selection | None, bool]:
        """Return nodes for a choice by the reference formulation, or whether none exist.

        (None, False) if that is not known: not within the time, or the question has more columns
        than `CutParams.placed_columns`.
        """
        if not in_place_fits(problem, choice):
            return None, True
        found = placed_by_places(problem, choice)
        if found is not None:
            return found, False
        small = restricted(problem, choice)
        ones = Level("placed", "jobs", np.ones(small.options.count))
        built = node_assignment.build(small, ones)
        self._asked += built.model.columns
        if built.model.columns > self._most.placed_columns or self._deadline.passed():
            return None, False
        # All are placed or none: a search for most of them would go on once it cannot be all.
        lower = built.model.column_lower.copy()
        lower[built.layout.x] = 1.0
        limits = replace(self._limits, gap=0.0, time_s=self._time_s())
        outcome = self._solver.solve(replace(built.model, column_lower=lower), limits)
        if outcome.x is None:
            return None, outcome.status is Status.INFEASIBLE
        placed = node_assignment.read_nodes(small, built, outcome.x)
        return with_partners(problem, Selection(choice, placed.nodes)), False


def _with_limits_of(built: RoundModel, other: RoundModel) -> RoundModel:
    """Return the model with the column limits that options have in another model of the round."""
    upper = built.model.column_upper.copy()
    upper[built.layout.x] = other.model.column_upper[other.layout.x]
    return replace(built, model=replace(built.model, column_upper=upper))


def _better(known: _Placed | None, found: _Placed, gap: float) -> _Placed:
    """Return the more valuable of two answers, with the tighter bound."""
    if known is None:
        return found
    bound = min(known.outcome.bound, found.outcome.bound)
    best = found
    if found.selection is None or found.outcome.objective < known.outcome.objective:
        best = replace(found, selection=known.selection, outcome=known.outcome)
    # A model of the remaining options may end without an answer: the known one then remains.
    bound = max(bound, best.outcome.objective)
    return replace(best, outcome=widened(replace(best.outcome, bound=bound), 0.0, gap))


def _given_up(outcome: Outcome, unproven: float, stop: Stop) -> Outcome:
    """Return the outcome of a solve that ends because its choices have no nodes."""
    return replace(
        outcome,
        status=Status.NO_SOLUTION,
        stop=stop,
        x=None,
        objective=float("nan"),
        bound=max(outcome.bound, unproven),
        gap=float("inf"),
        message="choices could not be placed, time and again"
        if stop is Stop.NODE_LIMIT
        else "no choice was placed in time",
    )


def _with_unproven(outcome: Outcome, unproven: float, gap: float) -> Outcome:
    """Return the outcome for a round of which choices were cut off without proof.

    ``unproven`` bounds the values of these (-inf if there are none) and therefore stays in the
    bound; that no other choice is feasible proves nothing about the round.
    """
    if unproven == float("-inf"):
        return outcome
    if outcome.x is None:
        infeasible = outcome.status is Status.INFEASIBLE
        status = Status.NO_SOLUTION if infeasible else outcome.status
        return replace(outcome, status=status, bound=unproven)
    bound = max(outcome.bound, unproven)
    reached = relative_gap(outcome.objective, bound)
    status = outcome.status if reached <= gap else Status.FEASIBLE
    return replace(outcome, status=status, bound=bound, gap=reached)


def _at_least(built: RoundModel, level: Level, rank: int, value: float, slack: float) -> RoundModel:
    """Return the model with a row ``rank[r]`` that keeps a level at its optimum."""
    cost = np.where(built.model.column_upper > 0, built.layout.cost(level), 0.0)
    # In units of the largest coefficient: a solver's row tolerance is absolute, units are not.
    scale = float(np.abs(cost).max(initial=0.0)) or 1.0
    cost, value = cost / scale, value / scale
    columns = np.flatnonzero(cost)
    slack *= max(1.0, abs(value))
    model = built.model.with_row("rank", [rank], columns, cost[columns], value - slack, np.inf)
    return replace(built, model=model)


def with_guarantees(problem: RoundProblem, built: RoundModel) -> RoundModel:
    """Return the model with rows ``guarantee[j]``: guaranteed jobs run as fast as requested."""
    members, enough, model = problem.options.members, kept(problem), built.model
    for job in np.flatnonzero(problem.jobs.guaranteed).tolist():
        columns = built.layout.x[members.option[enough & (members.job == job)]]
        model = model.with_row("guarantee", [job], columns, np.ones(columns.size), 1.0, np.inf)
    return replace(built, model=model)
