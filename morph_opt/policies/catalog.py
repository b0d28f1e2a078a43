"""Every policy and objective of the package, a `PolicySpec` each, as ``catalog.toml`` lists them.

The module of one is imported when it is made: a run pays for the policy that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from formulations.parameters import SERVICE
from morph_opt.decision.objective import Objective
from morph_opt.documents.packaged import packaged_toml
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import PairSpeeds, require_pair_speeds
from morph_opt.policies.base import Policy
from morph_opt.policies.gavel.mechanism import RESET_S
from morph_opt.policies.options import PolicyOptions
from morph_opt.policies.sizes import PRIOR_MEAN
from morph_opt.policies.spec import Needs, PolicySpec
from morph_opt.policies.tiresias.queues import QUEUE_LIMITS_GPU_S, GittinsIndex

ObjectiveSpec = PolicySpec[Objective[Any]]
BaselineSpec = PolicySpec[Policy]

_WORDS = {
    "limits": f"queues up to {' and '.join(f'{n:,g}' for n in QUEUE_LIMITS_GPU_S)} GPU-s",
    "amortised": f"start-ups charged to {SERVICE.amortise_s:g} s of service",
    "owed": f"lags made up in {SERVICE.horizon_s:,g} s, "
    f"start-ups charged to {SERVICE.amortise_s:g} s",
    "guessed": f"jobs of about {math.exp(PRIOR_MEAN):,.0f} GPU-s before one has completed",
    "resets": f"shares solved again after {RESET_S:,g} s at least",
}
"""What ``own_times`` says of constants of the rules."""


def default_index() -> GittinsIndex:
    """Gittins index of the generated twin; give your own samples to the policy directly."""
    from morph_opt.traces.twins.tiresias import twin_samples

    return GittinsIndex.of(twin_samples())


_TAKEN: Mapping[str, Callable[[SpeedModel, PolicyOptions], Any]] = {
    "belief": lambda belief, _: belief,
    "options": lambda _, options: options,
    "packing": lambda belief, options: require_pair_speeds(belief) if options.packing else None,
    "index": lambda *_: default_index(),
}
"""What makers take that is no option by its name."""


def _maker(
    where: str, takes: Sequence[str], more: Mapping[str, Any]
) -> Callable[[SpeedModel, PolicyOptions], Any]:
    """Calls ``module:name`` of this package with what it takes, by name."""
    module, _, name = where.partition(":")

    def make(belief: SpeedModel, options: PolicyOptions) -> Any:
        made = getattr(import_module(f"{__package__}.{module}"), name)
        given = {
            one: _TAKEN[one](belief, options) if one in _TAKEN else getattr(options, one)
            for one in takes
        }
        return made(**given, **more)

    return make


def _spec(name: str, table: dict[str, Any]) -> PolicySpec[Any]:
    make = _maker(table.pop("make"), table.pop("takes", ("belief",)), table.pop("with", {}))
    parts = {
        "options": tuple(table.pop("options", ())),
        "needs": Needs(**table.pop("needs", {})),
        "own_times": table.pop("own_times", "").format(**_WORDS),
    }
    return PolicySpec(name, make, **parts, **table)


def _specs() -> dict[str, dict[str, PolicySpec[Any]]]:
    return {
        kind: {name: _spec(name, table) for name, table in tables.items()}
        for kind, tables in packaged_toml(__package__, "catalog.toml").items()
    }


_SPECS = _specs()

OBJECTIVES: dict[str, ObjectiveSpec] = _SPECS["objectives"]
"""Objectives of the policy ``milp``."""

BASELINES: dict[str, BaselineSpec] = _SPECS["baselines"]
"""Policies that solve no MILP of ours per round."""


def feedback(belief: SpeedModel, feedback_share: float, name: str) -> Objective[Any]:
    """First reports, then equal turns or, behind a comma, another objective."""
    from morph_opt.policies.objectives.attained_service import QueuedService
    from morph_opt.policies.objectives.feedback import Feedback
    from morph_opt.policies.objectives.plain import Jct

    middle: dict[str, Callable[[], Objective[Any]]] = {
        "feedback,jct": Jct,
        "feedback,las": lambda: QueuedService(rigid=False),
    }
    then = middle[name]() if name in middle else None
    return Feedback(belief, name, then, feedback_share)


def slices(belief: SpeedModel, packing: PairSpeeds | None, any_affinity: bool = False) -> Policy:
    """Gandiva's slices, of pairs where these may be packed."""
    if packing is not None:
        from morph_opt.policies.gandiva.packed import PackedSlices

        return PackedSlices(belief, packing, any_affinity=any_affinity)
    from morph_opt.policies.gandiva.policy import GandivaSlices

    return GandivaSlices(belief, any_affinity=any_affinity)


def greedy(belief: SpeedModel, objective: str) -> Policy:
    """The values of an objective that needs nothing but the round's tables, by greed."""
    from morph_opt.policies.malleable.greedy import Greedy
    from morph_opt.policies.objectives import plain

    return Greedy(belief, plain.OBJECTIVES[objective](), f"greedy:{objective}")


def pollux(belief: SpeedModel, seed: int) -> Policy:
    """Pollux' search, drawn with this seed."""
    from morph_opt.policies.malleable.pollux import PolluxSearch
    from morph_opt.policies.malleable.pollux_rule import Budget

    return PolluxSearch(belief, Budget(seed=seed))


def yarn(belief: SpeedModel) -> Policy:
    """The first-come first-served baseline under EasyScale's name."""
    from morph_opt.policies.rigid import Fifo

    fair = Fifo(belief)
    fair.name = "easyscale:yarn-cs"
    return fair
