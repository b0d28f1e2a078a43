"""Fairness objectives and baselines by the names that command lines use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from formulations.round_problem import Level, RoundProblem
from morph_opt.domain import RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Policy
from morph_opt.policies.fairness import SHARE_OBJECTIVES, FollowShares
from morph_opt.policies.fairness_ratio import POWER, STRICT_POWER, EqualiseRatios
from morph_opt.policies.gavel import GavelRounds
from morph_opt.policies.gavel_shares import SHARE_POLICIES
from morph_opt.policies.las import QueuedService
from morph_opt.policies.tiresias import RigidQueues
from morph_opt.policies.tiresias_queues import GittinsIndex
from morph_opt.traces.tiresias_twin import twin_samples

RATIO_POLICIES = ("fairness", "fairness-agnostic", "hierarchical", "hierarchical-fifo", "ftf")
"""Share policies that promise a rate to every job; the others only say who goes where."""


class RememberingObjective(Protocol):
    """An objective that sees every snapshot before it is asked for its levels."""

    @property
    def name(self) -> str:
        """Word that command lines use."""
        ...

    def observe(self, state: RoundState) -> None:
        """See the round's snapshot; called once per round, in order."""
        ...

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """Goals, most important first."""
        ...


def default_index() -> GittinsIndex:
    """Gittins index of the twin's GPU-time quantiles."""
    return GittinsIndex.of(twin_samples())


def _share(policy: str, belief: SpeedModel) -> RememberingObjective:
    if policy in RATIO_POLICIES:
        return EqualiseRatios(belief, policy, power=STRICT_POWER if policy == "ftf" else POWER)
    return FollowShares(belief, policy)


def _queued(name: str, gittins: bool, rigid: bool, _belief: SpeedModel) -> RememberingObjective:
    return QueuedService(name, index=default_index() if gittins else None, rigid=rigid)


FAIR_OBJECTIVES: dict[str, Callable[[SpeedModel], RememberingObjective]] = {
    **{name: partial(_share, policy) for name, policy in SHARE_OBJECTIVES.items()},
    "las": partial(_queued, "las", False, False),
    "las-rigid": partial(_queued, "las-rigid", False, True),
    "gittins": partial(_queued, "gittins", True, False),
    "gittins-rigid": partial(_queued, "gittins-rigid", True, True),
}
"""Objectives of the MILP."""

FAIR_POLICIES: dict[str, Callable[[SpeedModel], Policy]] = {
    **{f"gavel:{name}": partial(lambda n, b: GavelRounds(b, n), name) for name in SHARE_POLICIES},
    "tiresias:2d-las": RigidQueues,
    "tiresias:gittins": lambda belief: RigidQueues(belief, index=default_index()),
}
"""Baselines in the same engine."""
