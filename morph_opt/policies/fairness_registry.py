"""Fairness objectives and baselines by the names that command lines use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from formulations.round_problem import Level, RoundProblem
from morph_opt.domain import InputError, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Policy
from morph_opt.policies.cost import CostWithSlos
from morph_opt.policies.fairness import SHARE_OBJECTIVES, FollowShares
from morph_opt.policies.fairness_ratio import EqualiseRatios
from morph_opt.policies.gavel.policy import GavelRounds
from morph_opt.policies.las import QueuedService
from morph_opt.policies.tiresias.artifact import ArtifactQueues
from morph_opt.policies.tiresias.policy import RigidQueues
from morph_opt.policies.tiresias.queues import GittinsIndex
from morph_opt.shares.policies import SHARE_POLICIES
from morph_opt.traces.tiresias_twin import twin_samples

RATIO_POLICIES = ("fairness", "fairness-agnostic", "hierarchical", "hierarchical-fifo", "ftf")
"""Share policies that promise a rate to every job; the others only say who goes where."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """What some of these policies may be told, and the others refuse.

    Parameters
    ----------
    entity_weights
        Weight of a tenant by name, above 0; 1 where not given. Of the hierarchical policies.
    starvation_knob
        K of Tiresias' queues, at least 0; 0 for never. Of policies with queues.
    artifact_quirks
        Whether `tiresias:*` decides as the published code does, defects included.

    Raises
    ------
    InputError
        If a number is out of range; names the tenant.
    """

    entity_weights: Mapping[str, float] = field(default_factory=dict)
    starvation_knob: float = 0.0
    artifact_quirks: bool = False

    def __post_init__(self) -> None:
        for name, weight in self.entity_weights.items():
            if not 0.0 < weight < math.inf:
                rule = f"weight of tenant {name!r} must be a number above 0, got {weight:g}"
                raise InputError(rule, field="--entity-weights")
        if not 0.0 <= self.starvation_knob < math.inf:
            rule = f"must be a number at least 0, got {self.starvation_knob:g}"
            raise InputError(rule, field="--starvation-knob")

    def require_understood(self, policy: str, objective: str) -> None:
        """Refuse a knob that the policy would ignore.

        Parameters
        ----------
        policy, objective
            Names; the objective counts for ``milp`` only. A user's own policy gets everything.

        Raises
        ------
        InputError
            Naming the knob and who knows it.
        """
        who = objective if policy == "milp" else policy
        if ":" in policy and policy not in FAIR_POLICIES:
            return
        for option, given, known in (
            ("--entity-weights", bool(self.entity_weights), WITH_ENTITIES),
            ("--starvation-knob", self.starvation_knob > 0, WITH_QUEUES),
            ("--artifact-quirks", self.artifact_quirks, RIGID_QUEUES),
        ):
            if given and who not in known:
                kind = "objective" if policy == "milp" else "policy"
                raise InputError(
                    f"{kind} {who!r} does not know it; known to {', '.join(known)}", field=option
                )


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


def _share(policy: str, belief: SpeedModel, knobs: Knobs) -> RememberingObjective:
    made: FollowShares | EqualiseRatios
    if policy in RATIO_POLICIES:
        made = EqualiseRatios(belief, policy)
    else:
        made = FollowShares(belief, policy)
    made.book.entity_weights = knobs.entity_weights
    return made


def _queued(
    name: str, gittins: bool, rigid: bool, _belief: SpeedModel, knobs: Knobs
) -> RememberingObjective:
    index = default_index() if gittins else None
    return QueuedService(name, index=index, rigid=rigid, knob=knobs.starvation_knob)


def _rounds(policy: str, belief: SpeedModel, knobs: Knobs) -> Policy:
    return GavelRounds(belief, policy, entity_weights=knobs.entity_weights)


def _rigid(gittins: bool, belief: SpeedModel, knobs: Knobs) -> Policy:
    index = default_index() if gittins else None
    if knobs.artifact_quirks:
        return ArtifactQueues(belief, knob=knobs.starvation_knob, index=index)
    return RigidQueues(belief, knob=knobs.starvation_knob, index=index)


FAIR_OBJECTIVES: dict[str, Callable[[SpeedModel, Knobs], RememberingObjective]] = {
    **{name: partial(_share, policy) for name, policy in SHARE_OBJECTIVES.items()},
    "cost": lambda belief, _: CostWithSlos(belief),
    "las": partial(_queued, "las", False, False),
    "las-rigid": partial(_queued, "las-rigid", False, True),
    "gittins": partial(_queued, "gittins", True, False),
    "gittins-rigid": partial(_queued, "gittins-rigid", True, True),
}
"""Objectives of the MILP."""

FAIR_POLICIES: dict[str, Callable[[SpeedModel, Knobs], Policy]] = {
    **{f"gavel:{name}": partial(_rounds, name) for name in SHARE_POLICIES},
    "tiresias:2d-las": partial(_rigid, False),
    "tiresias:gittins": partial(_rigid, True),
}
"""Baselines in the same engine."""

WITH_ENTITIES = tuple(name for name in (*FAIR_OBJECTIVES, *FAIR_POLICIES) if "hierarchical" in name)
"""Objectives and policies that know tenants' weights."""

RIGID_QUEUES = tuple(name for name in FAIR_POLICIES if name.startswith("tiresias:"))
"""Policies that can decide as Tiresias' published code."""

WITH_QUEUES = ("las", "las-rigid", "gittins", "gittins-rigid", *RIGID_QUEUES)
"""Objectives and policies with a starvation knob."""

WITH_PRICES = ("cost", "gavel:cost")
"""Objectives and policies that go by prices and deadlines."""
