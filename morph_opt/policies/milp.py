"""The MILP policy: build, solve, decode, check; one proven answer per round."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from formulations import node_assignment, node_pattern
from formulations.check import check
from formulations.decode import pack, restricted
from formulations.layout import RoundModel, cut_distinct, forbid
from formulations.linear_model import Ints
from formulations.objectives import SPEED_TOLERANCE, guarantee, kept, relative_speed
from formulations.round_problem import STAY, Level, RoundProblem, Selection
from morph_opt.candidates.table import CandidateBuilder
from morph_opt.domain import Allocation, Cluster, InputError, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision, RoundReport
from morph_opt.policies.greedy import keep_and_fill
from morph_opt.policies.place import to_allocation
from morph_opt.policies.pricing import solve_priced
from morph_opt.rules.compile import apply_rules, ranks_below, require_known_nodes
from morph_opt.rules.model import OperatorRules
from morph_opt.rules.recheck import require_kept
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits, Outcome, Status, relative_gap

CLAIM_TOLERANCE = 1e-6
"""Largest relative difference between a solver's objective and the one recomputed."""


class Objective(Protocol):
    """What a round is worth; see `formulations.objectives`."""

    @property
    def name(self) -> str:
        """Word that command lines use."""
        ...

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Goals, most important first."""
        ...


class ClaimError(RuntimeError):
    """The solver's objective differs from the one recomputed from the decision."""


class InfeasibleRoundError(InputError):
    """The operator's rules leave no decision at all, not even an idle cluster.

    ``morph_opt.explain`` finds a smallest set of rules in conflict.
    """

    def __init__(self, time_s: float) -> None:
        super().__init__(
            f"the operator's rules contradict each other in the round at {time_s:g} s",
            field="rules",
        )
        self.time_s = time_s


@dataclass
class _Clock:
    """Milliseconds spent per step of a round."""

    build_ms: float = 0.0
    solve_ms: float = 0.0
    place_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Solved:
    """A placed decision and how it came about.

    Parameters
    ----------
    selection
        None when no solve gave anything usable.
    outcomes
        Of the levels in order, up to the last one that was tried.
    model
        The last level's.
    """

    selection: Selection | None
    outcomes: tuple[Outcome, ...]
    model: RoundModel

    @property
    def outcome(self) -> Outcome:
        """Of the level tried last."""
        return self.outcomes[-1]


class RoundSolver:
    """Solves one `RoundProblem` under ranked levels.

    Parameters
    ----------
    solver
        Adapter.
    limits
        Of each single solve.
    formulation
        ``"node_pattern"`` or ``"node_assignment"``.
    """

    FORMULATIONS = ("node_pattern", "node_assignment")

    def __init__(self, solver: Solver, limits: Limits, formulation: str = "node_pattern") -> None:
        self._solver = solver
        self._limits = limits
        self._formulation = formulation
        self.clock = _Clock()

    def ranked(
        self, problem: RoundProblem, levels: tuple[Level, ...], base: RoundModel | None = None
    ) -> Solved:
        """Maximise the levels in order, each within the optima of those before it."""
        built = base or self.build(problem, levels[0])
        best: Selection | None = None
        outcomes: list[Outcome] = []
        for rank, level in enumerate(levels):
            built = replace(built, model=built.model.with_objective(built.layout.cost(level)))
            last = rank == len(levels) - 1
            found = self._placed(problem, built, 1e-6 if not last else self._limits.gap)
            outcomes.append(found.outcome)
            built = found.model
            if found.selection is None:
                break
            best = found.selection
            if not last:
                built = _at_least(built, level, rank, best.value(level))
        return Solved(best, tuple(outcomes), built)

    def build(self, problem: RoundProblem, level: Level) -> RoundModel:
        """The round's model in the chosen formulation."""
        began = time.perf_counter()
        make = node_pattern.build if self._formulation == "node_pattern" else node_assignment.build
        built = make(problem, level)
        self.clock.build_ms += 1e3 * (time.perf_counter() - began)
        return built

    def _placed(self, problem: RoundProblem, built: RoundModel, gap: float) -> Solved:
        """Solve until the choice can be placed; choices that cannot are cut off."""
        serial = sum(block.family == "not_again" for block in built.model.row_blocks)
        doubt = float("-inf")
        while True:
            outcome = self._solve(built, gap)
            if outcome.x is None:
                return Solved(None, (_doubted(outcome, doubt, gap),), built)
            began = time.perf_counter()
            selection, impossible = self._decode(problem, built, outcome)
            self.clock.place_ms += 1e3 * (time.perf_counter() - began)
            if selection is not None:
                return Solved(selection, (_doubted(outcome, doubt, gap),), built)
            if not impossible:
                doubt = max(doubt, outcome.bound)
            cut = cut_distinct(problem, built, outcome.x)
            if cut is None:
                cut = forbid(built, built.layout.choice(problem, outcome.x), serial)
                serial += 1
            built = cut

    def _solve(self, built: RoundModel, gap: float) -> Outcome:
        """Solve with the objective scaled to a largest coefficient of 1; report it unscaled."""
        cost = built.model.cost
        scale = float(np.abs(cost).max(initial=0.0)) or 1.0
        limits = replace(self._limits, gap=gap)
        scaled = replace(built, model=built.model.with_objective(cost / scale))
        outcome = solve_priced(self._solver, scaled, limits)
        self.clock.build_ms += 1e3 * outcome.build_s
        self.clock.solve_ms += 1e3 * (outcome.solve_s + outcome.check_s)
        return replace(outcome, objective=outcome.objective * scale, bound=outcome.bound * scale)

    def _decode(
        self, problem: RoundProblem, built: RoundModel, outcome: Outcome
    ) -> tuple[Selection | None, bool]:
        """The decision at an incumbent; without one, whether its choice is proven impossible."""
        assert outcome.x is not None
        if self._formulation == "node_assignment":
            return node_assignment.read_nodes(problem, built, outcome.x), False
        choice = built.layout.choice(problem, outcome.x)
        for order in ("size", "parts"):
            selection = pack(problem, choice, order)
            if selection is not None:
                return selection, False
        return self._exact_placement(problem, choice)

    def _exact_placement(
        self, problem: RoundProblem, choice: Ints
    ) -> tuple[Selection | None, bool]:
        """Nodes for a choice by the reference formulation, or whether there are provably none."""
        small = restricted(problem, choice)
        ones = Level(
            "placed", "jobs", np.ones(small.candidates.count), np.where(choice == STAY, 1.0, 0.0)
        )
        built = node_assignment.build(small, ones)
        outcome = self._solver.solve(built.model, replace(self._limits, gap=0.0))
        everyone = small.candidates.count + int((choice == STAY).sum())
        if outcome.x is None or outcome.objective < everyone - 0.5:
            proven = outcome.status is Status.INFEASIBLE or outcome.bound < everyone - 0.5
            return None, proven
        placed = node_assignment.read_nodes(small, built, outcome.x)
        return Selection(choice, placed.nodes), False


def _doubted(outcome: Outcome, doubt: float, gap: float) -> Outcome:
    """The outcome where choices were cut off that were not shown to be impossible.

    ``doubt`` bounds what these are worth (-inf: there are none); it stays in the bound, and the
    rest being infeasible says nothing about the round.
    """
    if doubt == float("-inf"):
        return outcome
    if outcome.x is None:
        infeasible = outcome.status is Status.INFEASIBLE
        status = Status.NO_SOLUTION if infeasible else outcome.status
        return replace(outcome, status=status, bound=doubt)
    bound = max(outcome.bound, doubt)
    reached = relative_gap(outcome.objective, bound)
    status = outcome.status if reached <= gap else Status.FEASIBLE
    return replace(outcome, status=status, bound=bound, gap=reached)


def _at_least(built: RoundModel, level: Level, rank: int, value: float) -> RoundModel:
    """The model in which a level keeps its optimum (row ``rank[r]``)."""
    cost = built.layout.cost(level)
    # In units of the largest coefficient: a solver's row tolerance is absolute, units are not.
    scale = float(np.abs(cost).max(initial=0.0)) or 1.0
    cost, value = cost / scale, value / scale
    columns = np.flatnonzero(cost)
    slack = 1e-7 * max(1.0, abs(value))
    model = built.model.with_row("rank", [rank], columns, cost[columns], value - slack, np.inf)
    return replace(built, model=model)


def with_guarantees(problem: RoundProblem, built: RoundModel) -> RoundModel:
    """Rows ``guarantee[j]``: every guaranteed job runs at no less than the speed of its request."""
    enough, stays = kept(problem)
    layout, model = built.layout, built.model
    for job in np.flatnonzero(problem.jobs.guaranteed).tolist():
        columns = layout.x[enough & (problem.candidates.job == job)]
        if stays[job]:
            columns = np.append(columns, layout.stay[job])
        model = model.with_row("guarantee", [job], columns, np.ones(columns.size), 1.0, np.inf)
    return replace(built, model=model)


class MilpPolicy:
    """One MILP per round under an objective, guarantees first.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    objective
        See `formulations.objectives`.
    solver, limits, formulation
        See `RoundSolver`.
    rules
        Operator's rules.

    Notes
    -----
    Fallback: when the solver ends without a usable incumbent (wall-clock safeguard, failure),
    the running allocation is kept and queued jobs are filled in greedily; the report says so.
    """

    def __init__(
        self,
        belief: SpeedModel,
        objective: Objective,
        solver: Solver,
        limits: Limits,
        formulation: str = "node_pattern",
        rules: OperatorRules | None = None,
    ) -> None:
        self._rules = rules or OperatorRules()
        # A smallest gang may ask for a configuration that a faster one on fewer GPUs dominates.
        self._builder = CandidateBuilder(belief, prune=self._rules.smallest_gang == 1)
        self._objective = objective
        self._solver = solver
        self._limits = limits
        self._formulation = formulation
        self._cluster: Cluster | None = None

    @property
    def name(self) -> str:
        """``"milp"``."""
        return "milp"

    @property
    def remembers(self) -> bool:
        """Whether the objective has a memory of earlier rounds."""
        return hasattr(self._objective, "observe")

    def observe(self, state: RoundState) -> None:
        """Show a snapshot to objectives that remember; a resumed replay repeats its rounds so."""
        observe = getattr(self._objective, "observe", None)
        if observe is not None:
            observe(state)

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.policies.base.Policy`."""
        if not state.jobs:
            return Decision(Allocation(), RoundReport("idle"))
        if state.cluster is not self._cluster:
            require_known_nodes(self._rules, state.cluster)
            self._cluster = state.cluster
        began = time.perf_counter()
        view = apply_rules(self._builder.view(state), state, self._rules)
        problem = view.problem
        self.observe(state)
        goals = self._objective.levels(problem)
        levels = (*goals, *ranks_below(problem, self._rules))
        prepared = time.perf_counter()
        rounds = RoundSolver(self._solver, self._limits, self._formulation)
        solved, possible = self._solve(problem, levels, rounds)
        solved_at = time.perf_counter()
        if solved.outcomes[0].status is Status.INFEASIBLE:
            raise InfeasibleRoundError(state.time_s)
        main, before = goals[-1], int(possible is False)
        outcome = _main_outcome(solved, len(goals) + before)
        selection = solved.selection
        if selection is None or outcome is None:
            selection = keep_and_fill(problem, levels[0])
        allocation = to_allocation(state, view, selection)
        decoded = time.perf_counter()
        check(problem, selection)
        if solved.outcome.usable and len(solved.outcomes) == len(levels) + before:
            _compare(solved.outcome.objective, selection.value(levels[-1]), levels[-1].name)
        require_kept(state, allocation, self._rules, view)
        short, shortfall = _shortfall(problem, selection)
        checked = time.perf_counter()
        value = selection.value(main)
        bound = float("nan") if outcome is None else outcome.bound
        return Decision(
            allocation,
            RoundReport(
                status="fallback" if outcome is None else str(outcome.status),
                candidates=problem.candidates.count,
                rows=solved.model.model.rows,
                columns=solved.model.model.columns,
                objective=value,
                bound=bound,
                gap=float("nan") if outcome is None else relative_gap(value, bound),
                guarantees_short=short,
                guarantee_shortfall=shortfall,
                guarantees_possible=possible,
                candidates_ms=1e3 * (prepared - began),
                build_ms=rounds.clock.build_ms,
                solve_ms=rounds.clock.solve_ms,
                place_ms=rounds.clock.place_ms + 1e3 * (decoded - solved_at),
                check_ms=1e3 * (checked - decoded),
            ),
        )

    def _solve(
        self, problem: RoundProblem, levels: tuple[Level, ...], rounds: RoundSolver
    ) -> tuple[Solved, bool | None]:
        """Ranked solve; with guaranteed jobs first as hard rows, then, if impossible, as a rank."""
        if not problem.jobs.guaranteed.any():
            return rounds.ranked(problem, levels), None
        base = rounds.build(problem, levels[0])
        solved = rounds.ranked(problem, levels, with_guarantees(problem, base))
        if solved.outcomes[0].status is not Status.INFEASIBLE:
            return solved, None if solved.selection is None else True
        return rounds.ranked(problem, (guarantee(problem), *levels), base), False


def _main_outcome(solved: Solved, position: int) -> Outcome | None:
    """Outcome of the objective's last level, the ``position``-th solved; None if unusable."""
    if len(solved.outcomes) < position or not solved.outcomes[position - 1].usable:
        return None
    return solved.outcomes[position - 1]


def _compare(claim: float, value: float, level: str) -> None:
    if abs(claim - value) > CLAIM_TOLERANCE * max(1e-9, abs(claim), abs(value)):
        raise ClaimError(
            f"objective {level}: the solver claims {claim!r}, the decision is worth {value!r}"
        )


def _shortfall(problem: RoundProblem, selection: Selection) -> tuple[int, float]:
    """Guaranteed jobs below their promised speed, and the sum of the missing fractions."""
    promised = np.flatnonzero(problem.jobs.guaranteed)
    if not promised.size:
        return 0, 0.0
    started, stayed = relative_speed(problem)
    choice = selection.choice[promised]
    granted = np.where(
        choice >= 0,
        started[np.maximum(choice, 0)] if started.size else 0.0,
        np.where(choice == STAY, stayed[promised], 0.0),
    )
    missing = np.where(granted >= 1.0 - SPEED_TOLERANCE, 0.0, 1.0 - granted)
    return int((missing > 0).sum()), float(missing.sum())
