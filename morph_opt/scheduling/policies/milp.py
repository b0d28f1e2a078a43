"""Policy ``milp``: build, solve, decode, check; one proven answer per round."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from formulations.prices.certify import bound_by_prices
from formulations.round.check import check
from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.tolerances import CLAIM, SAME_VALUE
from morph_opt.core.domain import Allocation, InputError, RoundState
from morph_opt.core.domain.errors import ContractError, typed
from morph_opt.core.domain.nearest import unknown
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.decision.at_best import at_best, lasts_until_event
from morph_opt.scheduling.decision.due import Cut
from morph_opt.scheduling.decision.fallback import best_at_hand, without_goals
from morph_opt.scheduling.decision.filling import completed, with_selection
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.method import Evidence, Laps, RoundMethod, Solved
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.decision.params import DEFAULTS
from morph_opt.scheduling.decision.placement import place, with_own_gpus_kept
from morph_opt.scheduling.decision.pose import PosedRound, RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip, RoundSolver
from morph_opt.scheduling.decision.repeated import Repeated
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.recheck import require_kept
from morph_opt.scheduling.decision.ties import serve_earlier
from morph_opt.scheduling.decision.unsettled import with_promises_settled
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport, shortfall_of
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Status, relative_gap
from morph_opt.scheduling.solvers.registry import make_solver
from morph_opt.scheduling.strict.check import BeliefChecks, PlacementCheck
from morph_opt.scheduling.strict.rules import AllocationError, StateFacts


class ClaimError(ContractError):
    """Error: the solver's objective differs from the one recomputed from the decision."""


class InfeasibleRoundError(InputError):
    """Error: the operator's rules leave no decision, not even an idle cluster.

    ``morph_opt.scheduling.explanation`` finds a smallest set of rules in conflict.

    Parameters
    ----------
    posed
        The round.
    """

    def __init__(self, posed: PosedRound) -> None:
        super().__init__(
            f"the operator's rules contradict each other in the round at {posed.state.time_s:g} s",
            field="rules",
        )
        self.posed = posed


class UndecidedRoundError(InputError):
    """Error: no decision that keeps the operator's rules was found within the time limit."""

    def __init__(self, posed: PosedRound, limits: Limits) -> None:
        super().__init__(
            f"no decision that keeps the operator's rules was found within {limits.time_s:g} s in"
            f" the round at {posed.state.time_s:g} s; with more time one may be",
            field="--time-limit-s",
        )


class MilpPolicy(Policy):
    """Policy of one MILP per round under an objective, guarantees first.

    Parameters
    ----------
    poser
        Belief, objective, rules and pairs.
    method
        Method that solves posed rounds.
    limits
        Limits of each solve; all solves of a round share the time.
    fallback
        Function that decides from the tables and the first goal if the method has no usable answer
        (wall-clock safeguard, failure); the report states it.
    ties_by_arrival
        Whether the better choices of waiting jobs of equal value go to those that arrived
        earlier; False to keep the ties of the method.
    every
        Whether the method also solves rounds in which no job has a better option.
    """

    name = "milp"

    def __init__(
        self,
        poser: RoundPoser,
        method: RoundMethod,
        limits: Limits,
        fallback: Callable[[RoundProblem, Level], Selection] = best_at_hand,
        ties_by_arrival: bool = False,
        every: bool = False,
    ) -> None:
        self._ties_by_arrival = ties_by_arrival
        self._every = every
        self._poser = poser
        self._method = Repeated(method)
        self._limits = limits
        self._fallback = fallback
        self._checks = BeliefChecks(poser.belief)
        self._strict: PlacementCheck | None = None

    def with_ties_by_arrival(self) -> MilpPolicy:
        """Return the policy with ties by arrival, then name."""
        return MilpPolicy(
            self._poser, self._method.method, self._limits, self._fallback, True, self._every
        )

    @classmethod
    def of(
        cls,
        belief: SpeedModel,
        objective: Objective[Any],
        solver: Solver,
        limits: Limits,
        formulation: str = "node_pattern",
        rules: OperatorRules | None = None,
        packing: PairSpeeds | None = None,
    ) -> MilpPolicy:
        """Return the policy with exact MIPs; see `RoundPoser` and `ExactMip`."""
        poser = RoundPoser(belief, objective, rules, packing)
        return cls(poser, ExactMip(solver, formulation), limits)

    @property
    def remembers(self) -> bool:
        """Whether the objective or a plan depends on earlier rounds."""
        return self._poser.remembers

    def observe(self, state: RoundState) -> None:
        """Show a snapshot to objectives and plans that remember, without deciding the round."""
        self._poser.observe(state)

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        if not state.jobs:
            return Decision(Allocation(), RoundReport("idle"))
        laps = Laps()
        posed = self._poser.pose(state)
        laps.end("candidates")
        settled = None if self._every else at_best(posed)
        posed, solved = (posed, settled) if settled else self._solved(posed)
        laps.end("solve")
        if solved.outcomes[0].status is Status.INFEASIBLE:
            raise InfeasibleRoundError(posed)
        solved = completed(posed.problem, solved)
        if solved.selection is not None:
            goals = (*posed.levels, *solved.levels)
            solved = with_selection(solved, self._settled(posed, goals, solved.selection))
        selection = solved.selection
        if selection is None or solved.outcome_of(posed.worth_of(solved.levels)) is None:
            selection = self._settled(posed, posed.levels, self._fallen_back(posed))
        solved = with_promises_settled(posed, solved, selection, self._limits.gap)
        check(posed.problem, selection)
        laps.end("check")
        allocation = place(posed, selection)
        laps.end("place")
        last, worth = solved.levels[-1], posed.worth_of(solved.levels)
        value = selection.value(last)
        if solved.complete:
            _compare(solved.outcome.objective, value, last.name)
        if worth is not last:
            value = selection.value(worth)
        require_kept(state, allocation, posed.rules, posed.view)
        self._require_possible(state, allocation)
        report = self._report(posed, solved, selection, value, laps)
        evidence = Evidence(posed, solved, selection)
        steady = settled is not None or (solved.complete and lasts_until_event(posed, selection))
        next_s = posed.due.next_s if posed.due.next_s < math.inf else None
        return Decision(allocation, report, evidence, steady=steady, next_s=next_s)

    def _solved(self, posed: PosedRound) -> tuple[PosedRound, Solved]:
        """Solve a round; leave out the last rows of due jobs while they leave no decision."""
        solved = self._method.solve(posed, self._limits)
        while posed.due.rows and solved.selection is None:
            if solved.outcomes[0].status is Status.INFEASIBLE:
                cut = Cut(len(posed.due.rows) - 1, "no decision starts all due jobs together")
            else:
                cut = Cut(0, "no decision that starts it was found in time")
            posed = posed.with_due(cut)
            solved = self._method.solve(posed, self._limits)
        return solved.posed or posed, solved

    def _settled(
        self, posed: PosedRound, goals: tuple[Level, ...], selection: Selection
    ) -> Selection:
        """Return the decision with starts that are stays, and with ties by arrival if asked for."""
        kept = with_own_gpus_kept(posed, selection)
        return serve_earlier(posed, goals, kept) if self._ties_by_arrival else kept

    def _fallen_back(self, posed: PosedRound) -> Selection:
        """Return the fallback's decision, or one of the method for the rules alone.

        Raises
        ------
        InfeasibleRoundError
            If the rules leave no decision.
        UndecidedRoundError
            If it is not known whether the rules leave one.
        """
        selection = self._fallback(posed.problem, posed.levels[0])
        if broken_rule(posed.problem, selection) is None:
            return selection
        rules_alone = without_goals(posed)
        solved = self._method.solve(rules_alone, replace(self._limits, time_s=DEFAULTS.rescue_s))
        if solved.selection is not None and solved.posed is None:
            return solved.selection
        if solved.outcomes[0].status is Status.INFEASIBLE:
            raise InfeasibleRoundError(posed)
        raise UndecidedRoundError(posed, self._limits)

    def _require_possible(self, state: RoundState, allocation: Allocation) -> None:
        """Refuse a decision that is impossible by the rules alone, before tables are built."""
        if self._strict is None or self._strict.cluster is not state.cluster:
            self._strict = self._checks.on(state.cluster)
        broken = self._strict.check(allocation.assignments, StateFacts.of(state))
        if broken:
            raise AllocationError(state.index, state.time_s, broken)

    def _report(
        self, posed: PosedRound, solved: Solved, selection: Selection, value: float, laps: Laps
    ) -> RoundReport:
        """Return the report of a round, with its bound however it ended.

        Parameters
        ----------
        value
            Value of the decision.
        laps
            Times of the steps so far; the last one includes making this report.
        """
        worth = posed.worth_of(solved.levels)
        outcome = solved.outcome_of(worth)
        from morph_opt.scheduling.solvers.small_lp import SmallLp

        open_promises = solved.promised is None and bool(posed.problem.jobs.guaranteed.any())
        status = "fallback" if outcome is None else str(outcome.status)
        bound = float("inf") if outcome is None else outcome.bound
        bound_by = solved.bound_by
        if outcome is None or not (outcome.status is Status.OPTIMAL or bound_by != "solver"):
            promised = bool(solved.promised) and outcome is not None
            compact = posed.view.compact
            proven = bound_by_prices(posed.problem, worth, promised, compact, SmallLp()).value
            if proven < bound:
                bound, bound_by = proven, "prices"
            close = relative_gap(value, bound) <= self._limits.gap and not open_promises
            if outcome is not None and close:
                status = str(Status.OPTIMAL)
        short, shortfall = shortfall_of(posed.problem, selection)
        dropped, restored = self._poser.objective.slo_changes()
        jobs = zip(posed.state.jobs, selection.choice.tolist(), strict=True)
        waiting = {known.job.name for known, option in jobs if option == NONE}
        gap, of_gain = relative_gap(value, bound), _gap_of_gain(posed.problem, worth, value, bound)
        laps.end("check")
        return RoundReport(
            status=status,
            candidates=posed.problem.candidates.count,
            rows=solved.rows,
            columns=solved.columns,
            objective=value,
            bound=bound,
            gap=gap,
            bound_by=bound_by,
            step="" if outcome is None else solved.step,
            gap_of_gain=of_gain,
            guarantees_short=short,
            guarantee_shortfall=shortfall,
            guarantees_possible=solved.promised,
            slo_dropped=dropped,
            slo_restored=restored,
            late=tuple(late for late in posed.due.late if late.job in waiting),
            plan=None if posed.due.ahead is None else posed.due.ahead.told,
            candidates_ms=laps.ms["candidates"],
            build_ms=solved.times.build_ms,
            solve_ms=solved.times.solve_ms,
            place_ms=solved.times.place_ms + laps.ms["place"],
            check_ms=laps.ms["check"],
        )


def _gap_of_gain(problem: RoundProblem, worth: Level, value: float, bound: float) -> float:
    """Return the possible loss relative to the largest gain over leaving everything in place."""
    possible = bound - float(worth.value[problem.options.stays].sum())
    missing = max(0.0, bound - value)
    return 0.0 if missing <= SAME_VALUE * abs(bound) else missing / max(possible, missing)


def _compare(claim: float, value: float, level: str) -> None:
    if abs(claim - value) > CLAIM * max(SAME_VALUE, abs(claim), abs(value)):
        raise ClaimError(
            f"objective {level}: the solver claims {claim!r}, the decision is worth {value!r}"
        )


def method_of(options: PolicyOptions) -> RoundMethod:
    """Return the method of the options; rounds with named nodes are solved by the exact MIP."""
    if options.formulation not in RoundSolver.FORMULATIONS:
        raise InputError(
            unknown("formulation", options.formulation, RoundSolver.FORMULATIONS),
            field="--formulation",
        )
    solver = _solver(options)
    exact = ExactMip(solver, options.formulation)
    if options.method == "exact":
        return exact
    if options.method not in ("auto", "ladder"):
        raise InputError(
            unknown("method", options.method, ("exact", "ladder", "auto")), field="--method"
        )
    if options.formulation != "node_pattern":
        if options.method == "ladder":
            raise InputError(
                f"'ladder' needs {typed('--formulation')} node_pattern", field="--method"
            )
        return exact
    return Ladder(solver)


def _solver(options: PolicyOptions) -> Solver:
    """Return the solver; refuse limits that it does not support."""
    solver = make_solver(options.solver)
    if options.node_limit is not None and not solver.capabilities.node_limit:
        rule = f"solver {options.solver!r} does not know it (python -m morph_opt.solvers)"
        raise InputError(rule, field="--node-limit")
    return solver
