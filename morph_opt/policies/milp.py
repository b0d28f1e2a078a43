"""The MILP policy: build, solve, decode, check; one proven answer per round."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from formulations.check import check
from formulations.objectives import SPEED_TOLERANCE, relative_speed
from formulations.pair_levels import with_pairs
from formulations.round_problem import STAY, Level, RoundProblem, Selection
from morph_opt.candidates.pairs import PairBuilder
from morph_opt.candidates.table import CandidateBuilder
from morph_opt.decision.fallback import keep_and_fill
from morph_opt.decision.placement import to_allocation
from morph_opt.decision.ranked import RoundSolver, Solved
from morph_opt.domain import Allocation, Cluster, InputError, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import PairSpeeds
from morph_opt.policies.base import Decision, RoundReport
from morph_opt.policies.deadlines import slo_changes
from morph_opt.rules.compile import apply_rules, ranks_below
from morph_opt.rules.known import require_known_nodes
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
    packing
        Measured speeds of two jobs on the same GPUs; rounds then offer such pairs. None: no pairs.

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
        packing: PairSpeeds | None = None,
    ) -> None:
        self._rules = rules or OperatorRules()
        self._pairs = None if packing is None else PairBuilder(packing)
        # A smallest gang may ask for a configuration that a faster one on fewer GPUs dominates.
        self._builder = CandidateBuilder(belief, prune=self._rules.smallest_gang == 1)
        self._objective = objective
        pack = getattr(objective, "pack", None)
        if packing is not None and pack is not None:
            pack(packing)
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
        if self._pairs is not None:
            view = self._pairs.extended(view, state)
        problem = view.problem
        self.observe(state)
        goals = with_pairs(self._objective.levels, problem)
        levels = (*goals, *with_pairs(lambda p: ranks_below(p, self._rules), problem))
        prepared = time.perf_counter()
        rounds = RoundSolver(self._solver, self._limits, self._formulation)
        solved, possible = rounds.guaranteed(problem, levels)
        solved_at = time.perf_counter()
        if solved.outcomes[0].status is Status.INFEASIBLE:
            raise InfeasibleRoundError(state.time_s)
        main, before = goals[-1], int(possible is False)
        outcome = _main_outcome(solved, len(goals) + before)
        selection = solved.selection
        if selection is None or outcome is None:
            selection = keep_and_fill(problem, levels[0])
        check(problem, selection)
        checking = time.perf_counter()
        allocation = to_allocation(state, view, selection)
        decoded = time.perf_counter()
        if solved.outcome.usable and len(solved.outcomes) == len(levels) + before:
            _compare(solved.outcome.objective, selection.value(levels[-1]), levels[-1].name)
        require_kept(state, allocation, self._rules, view)
        short, shortfall = _shortfall(problem, selection)
        checked = time.perf_counter()
        dropped, restored = slo_changes(self._objective)
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
                slo_dropped=dropped,
                slo_restored=restored,
                candidates_ms=1e3 * (prepared - began),
                build_ms=rounds.clock.build_ms,
                solve_ms=rounds.clock.solve_ms,
                place_ms=rounds.clock.place_ms + 1e3 * (decoded - checking),
                check_ms=1e3 * (checking - solved_at + checked - decoded),
            ),
        )


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
