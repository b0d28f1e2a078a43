"""Every policy and objective of the package, a `PolicySpec` each.

The module of one is imported when it is made: a run pays for the policy that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from formulations.objectives import fairness, las
from morph_opt.decision.objective import Objective, Stateless
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import require_pair_speeds
from morph_opt.policies.auto import AUTO, objective_for
from morph_opt.policies.base import Policy
from morph_opt.policies.gavel.mechanism import RESET_S
from morph_opt.policies.objectives.plain import Jct, Lookahead, SavedTime, Throughput
from morph_opt.policies.options import PolicyOptions
from morph_opt.policies.sizes import PRIOR_MEAN
from morph_opt.policies.spec import Needs, PolicySpec
from morph_opt.policies.tiresias.queues import QUEUE_LIMITS_GPU_S, GittinsIndex

ObjectiveSpec = PolicySpec[Objective[Any]]
BaselineSpec = PolicySpec[Policy]

_FAIR, _HIERARCHICAL = "formulations/fairness.md", "formulations/hierarchical.md"
_LAS, _GITTINS = "formulations/las.md", "formulations/gittins.md"
_PLAIN_PAGE = "formulations/objectives.md"
_SLICES, _REPORTS = "formulations/feedback.md", ("feedback_share",)
_TENANTS, _QUEUES, _LEFT = ("entity_weights",), ("starvation_knob",), ("durations",)

# Times in rules, see `PolicySpec.own_times`.
_LIMITS = "queues up to " + " and ".join(f"{limit:,g}" for limit in QUEUE_LIMITS_GPU_S) + " GPU-s"
_SIZES = f"{_LIMITS}, a published distribution of GPU-s"
_AMORTISED = f"start-ups charged to {las.AMORTISE_S:g} s of service"
_OWED = f"lags made up in {fairness.HORIZON_S:,g} s, start-ups charged to {fairness.AMORTISE_S:g} s"
_GUESSED = f"jobs of about {math.exp(PRIOR_MEAN):,.0f} GPU-s before one has completed"
_RESETS = f"shares solved again after {RESET_S:,g} s at least"


def _by(where: str, **more: bool) -> Callable[[SpeedModel, PolicyOptions], Any]:
    """Makes a policy or objective of the belief alone, by ``module:class`` of this room."""
    module, _, name = where.partition(":")

    def make(belief: SpeedModel, _: PolicyOptions) -> Any:
        return getattr(import_module(f"{__package__}.{module}"), name)(belief, **more)

    return make


def default_index() -> GittinsIndex:
    """Gittins index of the twin's GPU-time quantiles."""
    from morph_opt.traces.twins.tiresias import twin_samples

    return GittinsIndex.of(twin_samples())


def _follow(policy: str, belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
    from morph_opt.policies.objectives.follow_shares import FollowShares

    return FollowShares(belief, policy, require_pair_speeds(belief) if options.packing else None)


def _makespan(belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
    from morph_opt.policies.objectives.follow_shares import Makespan

    return Makespan(belief, require_pair_speeds(belief) if options.packing else None)


def _ratios(policy: str, belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
    from morph_opt.policies.objectives.finish_time_ratio import EqualiseRatios

    return EqualiseRatios(belief, policy, options.entity_weights)


def _queued(
    name: str, gittins: bool, rigid: bool, _belief: SpeedModel, options: PolicyOptions
) -> Objective[Any]:
    from morph_opt.policies.objectives.attained_service import QueuedService

    index = default_index() if gittins else None
    return QueuedService(name, index=index, rigid=rigid, starvation_knob=options.starvation_knob)


def _rounds(policy: str, belief: SpeedModel, options: PolicyOptions) -> Policy:
    from morph_opt.policies.gavel.policy import GavelRounds

    return GavelRounds(belief, policy, entity_weights=options.entity_weights)


def _equal_parts(belief: SpeedModel, options: PolicyOptions) -> Policy:
    from morph_opt.policies.gavel.pairs import GavelPairs

    pairs = require_pair_speeds(belief) if options.packing else None
    return GavelPairs(belief, pairs, options.seed)


def _rigid(gittins: bool, belief: SpeedModel, options: PolicyOptions) -> Policy:
    from morph_opt.policies.tiresias.policy import RigidQueues

    index = default_index() if gittins else None
    return RigidQueues(belief, starvation_knob=options.starvation_knob, index=index)


def _slices(any_affinity: bool, belief: SpeedModel, options: PolicyOptions) -> Policy:
    if options.packing:
        from morph_opt.policies.gandiva.packed import PackedSlices

        return PackedSlices(belief, require_pair_speeds(belief), any_affinity=any_affinity)
    from morph_opt.policies.gandiva.policy import GandivaSlices

    return GandivaSlices(belief, any_affinity=any_affinity)


def _feedback(then: str, belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
    from morph_opt.policies.objectives.attained_service import QueuedService
    from morph_opt.policies.objectives.feedback import Feedback

    middle: dict[str, Objective[Any] | None] = {
        "turn": None,
        "jct": Jct(),
        "las": QueuedService(rigid=False),
    }
    name = "feedback" if then == "turn" else f"feedback,{then}"
    return Feedback(belief, name, middle[then], options.feedback_share)


_MEMORY, _REMAINDER = Needs(memory=True), Needs(memory=True, rest="yes")

OBJECTIVES: dict[str, ObjectiveSpec] = {
    spec.name: spec
    for spec in (
        PolicySpec(
            AUTO, lambda _, options: objective_for(options),
            "`saved-time`; on guesses `lookahead`; promises by weight",
            "this project", _PLAIN_PAGE, needs=Needs(rest="yes"), workers="yes",
        ),
        PolicySpec(
            "throughput", lambda *_: Throughput(),
            "speed relative to the request, restarts priced; guarantees first",
            "Morphling", _PLAIN_PAGE, workers="yes",
        ),
        PolicySpec(
            "jct", lambda *_: Jct(),
            "completions per second: shortest remaining time, for malleable jobs",
            "classical rule, restarts priced", _PLAIN_PAGE, needs=Needs(rest="yes"), workers="yes",
        ),
        PolicySpec(
            "lookahead", lambda *_: Lookahead(),
            "completion time saved, GPU-seconds priced by the backlog",
            "this project", "formulations/lookahead.md", needs=Needs(rest="yes"), workers="yes",
        ),
        PolicySpec(
            "saved-time", lambda *_: SavedTime(),
            "completion time saved per root of the time that GPUs are held",
            "this project", "formulations/saved-time.md", needs=Needs(rest="yes"), workers="yes",
        ),
        PolicySpec(
            "jct-blind", lambda *_: Lookahead(name="jct-blind"),
            "`lookahead` on work left as guessed from jobs that have completed",
            "this project, Gittins", "formulations/unknown-durations.md", blind=True,
            own_times=_GUESSED,
        ),
        PolicySpec(
            "fairness", partial(_ratios, "fairness"),
            "finish times that are even against max-min fair rates",
            "Gavel", _FAIR, needs=_REMAINDER,
        ),
        PolicySpec(
            "fairness-agnostic", partial(_ratios, "fairness-agnostic"),
            "the same for a scheduler that cannot tell GPU types apart",
            "Gavel", _FAIR, needs=_REMAINDER,
        ),
        PolicySpec(
            "hierarchical", partial(_ratios, "hierarchical"),
            "fair between tenants, then between a tenant's jobs",
            "Gavel", _HIERARCHICAL, _TENANTS, _REMAINDER,
        ),
        PolicySpec(
            "hierarchical-fifo", partial(_ratios, "hierarchical-fifo"),
            "fair between tenants, then in order of arrival",
            "Gavel", _HIERARCHICAL, _TENANTS, _REMAINDER,
        ),
        PolicySpec(
            "ftf", partial(_ratios, "ftf"), "the largest finish-time ratio",
            "Themis, Gavel", "formulations/finish-time.md", needs=_REMAINDER,
        ),
        PolicySpec(
            "makespan", _makespan, "the end of the last job",
            "this project; Gavel on mixed types", "formulations/makespan.md", needs=_REMAINDER,
            workers="yes", own_times=f"on several GPU types {_OWED}",
        ),
        PolicySpec(
            "max_throughput", partial(_follow, "max_throughput"),
            "steps per second, of whomever", "Gavel", _FAIR, needs=_MEMORY, own_times=_OWED,
        ),
        PolicySpec(
            "cost", _by("objectives.cost:CostWithSlos"),
            "service-level objectives (deadlines) first, then work per dollar",
            "Gavel", "formulations/cost.md", needs=Needs(prices=True, memory=True, rest="yes"),
        ),
        PolicySpec(
            "fifo", partial(_follow, "fifo"), "shares by arrival", "Gavel", _FAIR, needs=_MEMORY,
            own_times=_OWED,
        ),
        PolicySpec(
            "srpt", partial(_follow, "srpt"), "shares by remaining time",
            "Gavel", _FAIR, needs=_REMAINDER, own_times=_OWED,
        ),
        PolicySpec(
            "feedback", partial(_feedback, "turn"),
            "first reports soon, then equal turns, then GPUs in use: rounds as time slices",
            "Gandiva, this project", _SLICES, _REPORTS, Needs(slices=True),
        ),
        PolicySpec(
            "feedback,jct", partial(_feedback, "jct"),
            "first reports soon, then shortest remaining time", "this project", _SLICES,
            _REPORTS, Needs(rest="yes", slices=True),
        ),
        PolicySpec(
            "feedback,las", partial(_feedback, "las"),
            "first reports soon, then least attained service", "this project", _SLICES,
            _REPORTS, Needs(memory=True, slices=True), own_times=f"{_LIMITS}, {_AMORTISED}",
        ),
        PolicySpec(
            "las", partial(_queued, "las", False, False),
            "least attained service first, spare GPUs to all jobs",
            "Tiresias", _LAS, _QUEUES, _MEMORY, own_times=f"{_LIMITS}, {_AMORTISED}",
        ),
        PolicySpec(
            "gittins", partial(_queued, "gittins", True, False),
            "highest Gittins index first",
            "Tiresias", _GITTINS, _QUEUES, Needs(memory=True, rest="its distribution"),
            own_times=f"{_SIZES}, {_AMORTISED}",
        ),
        PolicySpec(
            "las-rigid", partial(_queued, "las-rigid", False, True),
            "`las` for requested GPU counts only", "Tiresias", _LAS, _QUEUES, _MEMORY,
            own_times=f"{_LIMITS}, {_AMORTISED}",
        ),
        PolicySpec(
            "gittins-rigid", partial(_queued, "gittins-rigid", True, True),
            "`gittins` for requested GPU counts only",
            "Tiresias", _GITTINS, _QUEUES, Needs(memory=True, rest="its distribution"),
            own_times=f"{_SIZES}, {_AMORTISED}",
        ),
    )
}  # fmt: skip
"""Objectives of the policy ``milp``."""


_GAVEL_RULES = {
    "fairness": ("Gavel's round mechanism on max-min shares", _FAIR),
    "fairness-agnostic": ("on max-min shares that ignore how fast a GPU type is", _FAIR),
    "water-filling": ("on max-min shares, filled up level by level", _FAIR),
    "hierarchical": ("on water-filling shares of tenants", _HIERARCHICAL),
    "hierarchical-fifo": ("on shares of tenants, arrival within a tenant", _HIERARCHICAL),
    "ftf": ("on shares for the least largest finish-time ratio", "formulations/finish-time.md"),
    "makespan": ("on shares for the earliest end of the last job", "formulations/makespan.md"),
    "max_throughput": ("on shares for the most steps per second", _FAIR),
    "cost": ("on shares for the most work per dollar, SLOs kept", "formulations/cost.md"),
    "fifo": ("on shares by arrival", _FAIR),
    "srpt": ("on shares by remaining time", _FAIR),
    "isolated": ("a private 1/n of the cluster for each job", _FAIR),
}


def _gavel(policy: str) -> BaselineSpec:
    rule, page = _GAVEL_RULES[policy]
    left = policy in ("makespan", "ftf", "srpt", "cost")
    options = (_TENANTS if page == _HIERARCHICAL else ()) + (_LEFT if left else ())
    needs = Needs(prices=policy == "cost", memory=True, rest="yes" if left else "no")
    return PolicySpec(
        f"gavel:{policy}",
        partial(_rounds, policy),
        rule,
        "Gavel",
        page,
        options,
        needs,
        own_times=_RESETS,
    )


def _greedy(made: Callable[[], Stateless], belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.policies.malleable.greedy import Greedy

    objective = made()
    return Greedy(belief, objective, f"greedy:{objective.name}")


def _pollux(belief: SpeedModel, options: PolicyOptions) -> Policy:
    from morph_opt.policies.malleable.pollux import PolluxSearch
    from morph_opt.policies.malleable.pollux_rule import Budget

    return PolluxSearch(belief, Budget(seed=options.seed))


_HEURISTICS = "published-heuristics.md"

MALLEABLE: tuple[BaselineSpec, ...] = (
    PolicySpec(
        "greedy:throughput", partial(_greedy, Throughput),
        "values of `throughput`, GPUs to the largest gain per GPU instead of a MILP",
        "this project", _HEURISTICS,
    ),
    PolicySpec(
        "greedy:jct", partial(_greedy, Jct), "the same with the values of `jct`",
        "this project", _HEURISTICS, _LEFT, Needs(rest="yes"),
    ),
    PolicySpec(
        "greedy:lookahead", partial(_greedy, Lookahead), "the same with the values of `lookahead`",
        "this project", _HEURISTICS, _LEFT, Needs(rest="yes"),
    ),
    PolicySpec(
        "optimus", _by("malleable.greedy:Optimus"),
        "the next GPU to whom it saves most seconds", "Optimus", _HEURISTICS, _LEFT,
        Needs(rest="yes"),
    ),
    PolicySpec(
        "morphling", _by("malleable.morphling:Morphling"),
        "slopes of sensitivity curves, guarantees, shrinking", "Morphling", _HEURISTICS,
    ),
    PolicySpec(
        "sia", _by("malleable.sia:Sia"),
        "Sia's integer program over configurations, then placement", "Sia", _HEURISTICS,
    ),
    PolicySpec(
        "pollux", _pollux,
        "Pollux' genetic search for goodput relative to a fair share", "Pollux", _HEURISTICS,
        draws="yes",
    ),
    PolicySpec(
        "pollux:counts", _by("malleable.pollux:PolluxCounts"),
        "Pollux' fitness at its maximum over GPU counts, no search", "Pollux", _HEURISTICS,
    ),
)  # fmt: skip
"""Heuristics that may change GPUs, as the MILP does."""


def _yarn(belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.policies.rigid import Fifo

    fair = Fifo(belief)
    fair.name = "easyscale:yarn-cs"
    return fair


def _elastic(rule: str, belief: SpeedModel, _: PolicyOptions) -> Policy:
    from morph_opt.policies.easyscale.policy import EasyScale

    return EasyScale(belief, rule)


_EASYSCALE_PAGE = "gandiva-easyscale.md"

EASYSCALE = (
    PolicySpec(
        "easyscale:yarn-cs",
        _yarn,
        "a GPU of its type for each worker, in order of arrival",
        "EasyScale",
        _EASYSCALE_PAGE,
        workers="only",
    ),
    PolicySpec(
        "easyscale:homo",
        partial(_elastic, "homo"),
        "workers on one type: GPUs to whom they help most, never fewer",
        "EasyScale",
        _EASYSCALE_PAGE,
        workers="only",
    ),
    PolicySpec(
        "easyscale:heter",
        partial(_elastic, "heter"),
        "the same on any types, for jobs whose kernels are equal on all",
        "EasyScale",
        _EASYSCALE_PAGE,
        workers="only",
    ),
)

BASELINES: dict[str, BaselineSpec] = {
    spec.name: spec
    for spec in (
        PolicySpec(
            "fifo", _by("rigid:Fifo"),
            "requested gangs in order of arrival", "classical rule", workers="yes",
        ),
        PolicySpec(
            "fifo:skip", _by("rigid:Fifo", skip_blocked=True),
            "the same, others may pass a blocked one", "classical rule", workers="yes",
        ),
        PolicySpec(
            "srtf", _by("rigid:Srtf"),
            "requested gangs, shortest remaining time first, preemptive", "classical rule",
            options=_LEFT, needs=Needs(rest="yes"), workers="yes",
        ),
        PolicySpec(
            "equal_split", _by("rigid:EqualSplit"),
            "the same number of GPUs for every active job", "classical rule",
        ),
        PolicySpec(
            "allox", _by("allox:AlloX"),
            "requested gangs, matched to GPU types and places in line for the least total time",
            "AlloX", _HEURISTICS, _LEFT, Needs(rest="yes"),
        ),
        PolicySpec(
            "gandiva", partial(_slices, False),
            "requested gangs take turns on servers of their size, move, grow; with packing pairs",
            "Gandiva", "gandiva-easyscale.md", ("packing",), Needs(memory=True, slices=True),
        ),
        PolicySpec(
            "gandiva:any-affinity", partial(_slices, True),
            "the same; a gang may join a full server of another size", "this project",
            "gandiva-easyscale.md", ("packing",), Needs(memory=True, slices=True),
        ),
        PolicySpec(
            "tiresias:2d-las", partial(_rigid, False),
            "requested gangs by attained service, assigned anew every round",
            "Tiresias", _LAS, _QUEUES, _MEMORY, own_times=_LIMITS,
        ),
        PolicySpec(
            "tiresias:gittins", partial(_rigid, True),
            "requested gangs by Gittins index, assigned anew every round",
            "Tiresias", _GITTINS, _QUEUES, _MEMORY, own_times=_SIZES,
        ),
        *(_gavel(policy) for policy in _GAVEL_RULES),
        PolicySpec(
            "gavel:gandiva", _equal_parts,
            "on equal parts; with packing random pairs while jobs ask for more than there is",
            "Gavel", "gandiva-easyscale.md", ("packing",), _MEMORY, draws="packing",
            own_times=_RESETS,
        ),
        *MALLEABLE,
        *EASYSCALE,
    )
}  # fmt: skip
"""Policies that are compared with, in the same strict engine."""
