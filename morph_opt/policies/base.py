"""What a policy is: a function from the round's snapshot to an allocation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from morph_opt.decision.method import Evidence
from morph_opt.domain import Allocation, Assignment, RoundState, gpus_held
from morph_opt.events.log import RoundDecided


@dataclass(frozen=True, slots=True)
class RoundReport:
    """How a policy came to its allocation; one row of ``rounds.csv``.

    Parameters
    ----------
    status
        ``"optimal"`` (within the gap asked for), ``"feasible"``, ``"fallback"`` (solver gave
        nothing usable in time; see the policy's stated fallback), ``"heuristic"`` (a policy
        that proves nothing) or ``"idle"`` (no active job).
    candidates, rows, columns
        Size of the round's problem; 0 for policies without one.
    objective, bound
        Value of the allocation and proven upper bound, in the objective's unit; NaN if none.
    gap
        Certified relative gap, ``(bound - objective) / max(1e-12, |objective|)``; NaN if none.
    bound_by
        What proves the bound: ``"solver"`` or ``"prices"`` (docs/formulations/prices.md); empty
        if nothing does.
    step
        Step that ended the round: ``"stays"`` (`morph_opt.decision.at_best`), or of the method
        ``"exact"``, ``"prices"``, ``"slots"`` or ``"residual"`` (`morph_opt.decision.ladder`);
        empty for a fallback and for policies without steps.
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
    candidates_ms: float = 0.0
    build_ms: float = 0.0
    solve_ms: float = 0.0
    place_ms: float = 0.0
    check_ms: float = 0.0

    def event(
        self, time_s: float, index: int, active: int, held: Sequence[Assignment]
    ) -> RoundDecided:
        """What the log says of the round, once its decision is applied."""
        return RoundDecided(
            time_s=time_s,
            index=index,
            active=active,
            running=len(held),
            gpus=gpus_held(held),
            status=self.status,
            gap=self.gap if math.isfinite(self.gap) else None,
            guarantees_short=self.guarantees_short,
            guarantee_shortfall=self.guarantee_shortfall,
            guarantees_possible=self.guarantees_possible,
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """An allocation with the report of how it was found.

    Parameters
    ----------
    allocation, report
        See the classes.
    evidence
        The round as it was posed and solved, for explanations; None for policies without one.
    stands
        Whether it changed nothing, and the policy would decide just the same at later boundaries
        until a job arrives or completes or a node changes. The engine then need not ask a policy
        whose ``remembers`` is False; one that does not say so sees every round.
    """

    allocation: Allocation
    report: RoundReport = field(default_factory=lambda: RoundReport("heuristic"))
    evidence: Evidence | None = field(default=None, compare=False, repr=False)
    stands: bool = False


class Policy(Protocol):
    """Decides a round. Never calls the engine, never mutates the state.

    A policy may keep caches, but its decision must depend on the state alone, so that a
    resumed replay decides as the uninterrupted one did.
    """

    @property
    def name(self) -> str:
        """Shown in run folders and tables."""
        ...

    def decide(self, state: RoundState) -> Decision:
        """Allocation for the round that begins at ``state.time_s``."""
        ...
