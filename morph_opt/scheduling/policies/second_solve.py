"""Rounds solved a second time as exact MIPs, whose answers test what a decision claims.

A decision claims for each of its goals, in order, a value and a bound that no decision exceeds
which is as good in the goals before. An exact MIP of the same goal disproves a claim in one of two
ways: it finds a checked decision that is worth more than the bound, or it proves a bound below the
value. If it does neither and proves its own answer, the two agree within the stated gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from formulations.parameters import Params, above
from formulations.round.check import check
from formulations.round.rules import broken_rule, with_floor, with_promises
from formulations.round.tables import Level, RoundProblem
from formulations.tolerances import CLAIM
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.method import Evidence, Solved
from morph_opt.scheduling.decision.params import DEFAULTS
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.decision.spread import floor_of, unsure
from morph_opt.scheduling.policies.base import Decision, RoundReport
from morph_opt.scheduling.solvers.base import Solver
from morph_opt.scheduling.solvers.outcome import Limits, Status


@dataclass(frozen=True, slots=True)
class SecondSolveParams(Params):
    """Limits of second solves."""

    time_s: float = above(60.0)
    """Seconds of a round, over all its goals."""

    named_parts: int = 60_000
    """Largest product of parts and nodes for which nodes are named (`node_assignment`); larger
    rounds count them (`node_pattern`)."""

    candidates: int = 100_000
    """Number of candidates from which on no exact MIP is tried."""


class Verdict(StrEnum):
    """Result of a comparison."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    OPEN = "not settled"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Claims of a round's decision next to the answer of an exact MIP.

    Parameters
    ----------
    verdict
        The result.
    goal
        Goal at fault, or the last one; empty if none was solved.
    value, bound
        Claimed value and bound of that goal.
    exact_value, exact_bound
        Value of the MIP's decision and its bound; NaN and infinity if there is none.
    reason
        Why the claims are disproved, or why the round is not settled; empty if they agree.
    """

    verdict: Verdict
    goal: str = ""
    value: float = float("nan")
    bound: float = float("inf")
    exact_value: float = float("nan")
    exact_bound: float = float("inf")
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Claim:
    """Goal of a decision with the value and the bound that are claimed of it."""

    level: Level
    value: float
    bound: float


class SecondSolve:
    """Solver of rounds whose decisions are known.

    Parameters
    ----------
    solver
        Adapter.
    gap
        Relative gap at which decisions and exact MIPs are done.
    seed
        Seed of the solver.
    params
        Limits.
    """

    def __init__(
        self, solver: Solver, gap: float, seed: int, params: SecondSolveParams | None = None
    ) -> None:
        self._solver = solver
        self._gap, self._seed = gap, seed
        self.params = params or SecondSolveParams()

    def compared(
        self, decision: Decision, claimed: RoundReport | None = None, same: bool = True
    ) -> Comparison:
        """Solve the round of a decision as exact MIPs and compare.

        Parameters
        ----------
        decision
            Decision with its evidence.
        claimed
            Report whose value and bound are compared where it has them; None: the decision's own.
        same
            Whether ``claimed`` is of this very decision. Of another decision of the same round its
            claims can be disproved, but nothing agrees with it.
        """
        evidence = decision.evidence
        if evidence is None:
            return _open("the policy solves no rounds")
        posed, solved = evidence.posed, evidence.solved
        if posed.problem.candidates.count >= self.params.candidates or posed.view.compact:
            return _open(f"{posed.problem.candidates.count:,} candidates are too many")
        own = decision.report
        if own.status == "fallback" and len(posed.levels) > 1:
            return _open("a fallback decided, which claims nothing of the goals before the last")
        if any(level.passing for level in posed.levels):
            return _open("a goal binds the next one alone, which its decision need not attain")
        deadline = Deadline(self.params.time_s)
        guaranteed = bool(posed.problem.jobs.guaranteed.any())
        if guaranteed and solved.promised is None:
            return _open("it was not known whether all promises can be kept")
        problem = posed.problem
        if guaranteed and solved.promised:
            problem = with_promises(problem)
        elif guaranteed:
            found = self._solved(with_promises(problem), posed.levels[0], self._gap, deadline)
            if found.selection is not None:
                reason = "the exact MIP keeps all promises, which the round called impossible"
                return Comparison(Verdict.DISAGREES, "promises", reason=reason)
            if found.outcome.status is not Status.INFEASIBLE:
                return self._open_in_time(found, _Claim(posed.levels[0], math.nan, math.inf))
        claims = list(_claims(evidence, own, claimed or own))
        if same:
            return self._goals(problem, evidence, claims, deadline)
        open_ = _open("it was decided otherwise when repeated (a limit in seconds?)")
        if len(claims) > 1 or claimed is None or math.isnan(claimed.objective):
            return open_
        found = self._solved(problem, claims[0].level, self._gap, deadline)
        result = self._judged(problem, claims[0], found)
        return result if result.verdict is Verdict.DISAGREES else open_

    def _goals(
        self,
        problem: RoundProblem,
        evidence: Evidence,
        claims: list[_Claim],
        deadline: Deadline,
    ) -> Comparison:
        """Compare goal after goal, each over decisions as good as the known one in those before."""
        result = _open("no goal was decided")
        for rank, claim in enumerate(claims):
            last = rank == len(claims) - 1
            gap = self._gap if last else min(DEFAULTS.rank_gap, self._gap)
            worth = evidence.selection.value(claim.level)
            if abs(worth - claim.value) > _error(worth, claim.value):
                reason = f"the round states a value of {claim.value!r}, its decision has {worth!r}"
                return _comparison(Verdict.DISAGREES, claim, reason=reason)
            if not math.isfinite(claim.bound):
                return _comparison(Verdict.OPEN, claim, reason="the round proved no bound")
            found = self._solved(problem, claim.level, gap, deadline)
            result = self._judged(problem, claim, found)
            if result.verdict is not Verdict.AGREES:
                break
            floor = floor_of(problem, claim.level, worth, max(worth, claim.bound))
            problem = with_floor(problem, rank, *floor)
        return result

    def _solved(
        self, problem: RoundProblem, level: Level, gap: float, deadline: Deadline
    ) -> Solved:
        """Return the exact answer of one goal."""
        named = problem.options.starts.part_gpus.size * problem.nodes.count
        formulation = "node_pattern" if named > self.params.named_parts else "node_assignment"
        limits = Limits(gap=gap, time_s=self.params.time_s, seed=self._seed)
        rounds = RoundSolver(self._solver, limits, formulation, deadline=deadline)
        return rounds.ranked(problem, (level,))

    def _judged(self, problem: RoundProblem, claim: _Claim, found: Solved) -> Comparison:
        """Compare the claims of one goal with the answer of an exact MIP."""
        outcome, selection = found.outcome, found.selection
        value = math.nan
        # Rows hold within a solver's tolerance, which may be worth more than a later goal: only a
        # decision that keeps the goals before to the last digit disproves a bound.
        if selection is not None and broken_rule(problem, selection) is None:
            check(problem, selection)
            value = selection.value(claim.level)
        error = _error(claim.value, claim.bound)
        scale = min(found.model.model.scale if found.model else math.inf, abs(claim.value))
        below = error + unsure(problem, scale)
        if value > claim.bound + error:
            reason = "the exact MIP's decision is worth more than the bound"
        elif outcome.status is Status.INFEASIBLE:
            reason = "the exact MIP claims that there is no decision"
        elif outcome.bound < claim.value - below:
            reason = "the exact MIP proves a bound below the value"
        elif outcome.status is Status.OPTIMAL:
            return _comparison(Verdict.AGREES, claim, value, outcome.bound)
        else:
            return self._open_in_time(found, claim, value)
        return _comparison(Verdict.DISAGREES, claim, value, outcome.bound, reason)

    def _open_in_time(self, found: Solved, claim: _Claim, value: float = math.nan) -> Comparison:
        """Return that a solve ended before it proved which of the two is right."""
        outcome = found.outcome
        reason = f"not settled in {self.params.time_s:g} s"
        if str(outcome.stop) != "time_limit":
            reason = f"the exact MIP ended without a proof ({outcome.stop})"
        return _comparison(Verdict.OPEN, claim, value, outcome.bound, reason)


def _claims(evidence: Evidence, own: RoundReport, claimed: RoundReport) -> Iterator[_Claim]:
    """Yield the claims of a decision, goal after goal.

    The goal of the round's worth is claimed in the report, which may have a tighter bound than the
    method; a report without numbers (nothing changed) claims the decision's.
    """
    solved, selection = evidence.solved, evidence.selection
    worth = evidence.posed.worth_of(solved.levels)
    stated = own if math.isnan(claimed.objective) else claimed
    value = selection.value(worth) if math.isnan(stated.objective) else stated.objective
    for level, outcome in zip(solved.levels, solved.outcomes, strict=False):
        if level is worth:
            bound = outcome.bound if math.isnan(stated.bound) else stated.bound
            yield _Claim(level, value, bound)
        else:
            yield _Claim(level, selection.value(level), outcome.bound)


def _error(value: float, bound: float) -> float:
    """Return the difference up to which two values are the same."""
    return CLAIM * max(abs(value), abs(bound) if math.isfinite(bound) else 0.0)


def _open(reason: str) -> Comparison:
    return Comparison(Verdict.OPEN, reason=reason)


def _comparison(
    verdict: Verdict,
    claim: _Claim,
    exact_value: float = math.nan,
    exact_bound: float = math.inf,
    reason: str = "",
) -> Comparison:
    return Comparison(
        verdict, claim.level.name, claim.value, claim.bound, exact_value, exact_bound, reason
    )
