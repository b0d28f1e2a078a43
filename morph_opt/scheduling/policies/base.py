"""Policy: function from the snapshot of a round to an allocation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from formulations.objectives import relative_speed
from formulations.round.tables import RoundProblem, Selection
from formulations.tolerances import SAME_SPEED
from morph_opt.core.domain import Allocation, RoundState
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.missing import MissingEqual
from morph_opt.core.extend import import_path, require_kind
from morph_opt.scheduling.decision.due import Late
from morph_opt.scheduling.decision.method import Evidence
from morph_opt.scheduling.decision.planned import StartPlan


@dataclass(frozen=True, eq=False, slots=True)
class RoundReport(MissingEqual):
    """Report of how a policy found its allocation; one row of ``rounds.csv``.

    Parameters
    ----------
    status
        ``"optimal"`` (within the requested gap), ``"feasible"``, ``"fallback"`` (solver gave
        nothing usable in time; see the policy's stated fallback), ``"heuristic"`` (a policy that
        proves nothing) or ``"idle"`` (no active job).
    candidates, rows, columns
        Size of the round's problem; 0 for policies without one.
    objective, bound
        Value of the allocation and proven upper bound, in the objective's unit; NaN if none.
    gap
        Certified relative gap, ``(bound - objective) / max(1e-12, |objective|)``; NaN if none.
    bound_by
        Proof of the bound: ``"knapsack"``, ``"prices"`` (docs/formulations) or ``"solver"``; empty
        if nothing does.
    step
        Step that ended the round, of several goals the last one; one of
        `morph_opt.scheduling.policies.steps.STEPS`, or empty for a fallback and for policies
        without steps.
    gap_of_gain
        ``(bound - objective) / (bound - what leaving everything as it is would be worth)``: most of
        a steady round's objective is jobs that stay, and a small gap may be much of what is
        decided. NaN if nothing is proven.
    guarantees_short
        Guaranteed jobs below the speed of their request in this allocation.
    guarantee_shortfall
        Sum over them of the missing fraction of that speed.
    guarantees_possible
        Whether all guaranteed jobs could have had their speed in this round; None if the
        policy did not decide that.
    slo_dropped, slo_restored
        Jobs whose SLO the policy gave up in this round, or holds to again, by name.
    late
        Jobs that are due and do not start, in the order of their due instants, with the reason.
    plan
        Plan of starts, if one was made in this round that changes a start.
    candidates_ms, build_ms, solve_ms, place_ms, check_ms
        Wall times of the steps.
    """

    status: str
    candidates: int = 0
    rows: int = 0
    columns: int = 0
    objective: float = float("nan")
    bound: float = float("nan")
    gap: float = float("nan")
    bound_by: str = ""
    step: str = ""
    gap_of_gain: float = float("nan")
    guarantees_short: int = 0
    guarantee_shortfall: float = 0.0
    guarantees_possible: bool | None = None
    slo_dropped: tuple[str, ...] = ()
    slo_restored: tuple[str, ...] = ()
    late: tuple[Late, ...] = ()
    plan: StartPlan | None = None
    candidates_ms: float = 0.0
    build_ms: float = 0.0
    solve_ms: float = 0.0
    place_ms: float = 0.0
    check_ms: float = 0.0

    def untimed(self) -> RoundReport:
        """Return the report with all times 0, for a round in which the policy was not called."""
        return replace(
            self, candidates_ms=0.0, build_ms=0.0, solve_ms=0.0, place_ms=0.0, check_ms=0.0
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """Allocation with the report of how it was found.

    Parameters
    ----------
    allocation, report
        See the classes.
    evidence
        The round as it was posed and solved, for explanations; None for policies without one.
    steady
        Whether it changed nothing, and the policy would decide just the same at later boundaries
        until a job arrives or completes, a node changes, or ``next_s``. The engine then need not
        call a policy that does not remember (`Policy.remembers`).
    next_s
        Instant at which the policy wants to decide again if nothing happens before; None for none.
        It begins a round where rounds begin at events, and ends a steady decision elsewhere.
    reason
        Function from the name of a job of the round to why it got what it got, in a sentence, valid
        until the policy decides again; None for policies that state none.
    """

    allocation: Allocation
    report: RoundReport = field(default_factory=lambda: RoundReport("heuristic"))
    evidence: Evidence | None = field(default=None, compare=False, repr=False)
    steady: bool = False
    next_s: float | None = None
    reason: Callable[[str], str] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        require_type("allocation", self.allocation, Allocation)
        require_type("report", self.report, RoundReport)


class Policy(ABC):
    """Scheduling policy: decides one round after the other.

    It never calls the engine and never mutates the state. A decision is a function of the states so
    far, and of nothing else (no clock, no random numbers without a seed), so that a resumed replay
    decides as the uninterrupted one did. A policy that uses only the present state meets this by
    itself; caches are allowed. A policy with a memory overrides `observe`, updates its memory
    there, and calls it in `decide`; such an object serves one run.
    """

    name: str
    """Name in run folders and tables."""

    @property
    def remembers(self) -> bool:
        """Whether decisions depend on earlier rounds, so that the policy must see all of them.

        True where `observe` is overridden; a policy that wraps another one, or that overrides
        `observe` without always remembering, overrides this property too.
        """
        return type(self).observe is not Policy.observe

    @abstractmethod
    def decide(self, state: RoundState) -> Decision:
        """Return the allocation for the round that begins at ``state.time_s``."""

    def notes(self) -> tuple[str, ...]:
        """Return lines on what the user asked for and the policy does not follow."""
        return ()

    def begins_at(self, clock_s: float) -> None:
        """Learn which instant of the log's clock second 0 of the trace is; 0 if there is none."""
        del clock_s  # by default no rule goes by the clock

    def observe(self, state: RoundState) -> None:
        """See a round that is decided elsewhere, for example while a replay is resumed."""
        del state  # by default nothing is remembered


def decision_of(policy: Policy, state: RoundState) -> Decision:
    """Return the decision of a policy, which may be a user's own, after a check of its type.

    Raises
    ------
    InputError
        If it is no `Decision` of an `Allocation`.
    """
    decision = policy.decide(state)
    source = f"{import_path(policy)}.decide"
    require_kind(decision, Decision, source, "--policy")
    require_kind(decision.allocation, Allocation, f"{source}: its allocation", "--policy")
    return decision


def shortfall_of(problem: RoundProblem, selection: Selection) -> tuple[int, float]:
    """Return the number of jobs below their promised speed, and the sum of the missing shares."""
    promised = np.flatnonzero(problem.jobs.guaranteed)
    if not promised.size:
        return 0, 0.0
    members = problem.options.members
    mine = members.chosen(selection.choice)
    granted = np.zeros(problem.jobs.count)
    granted[members.job[mine]] = relative_speed(problem)[mine]
    granted = granted[promised]
    missing = np.where(granted >= 1.0 - SAME_SPEED, 0.0, 1.0 - granted)
    return int((missing > 0).sum()), float(missing.sum())
