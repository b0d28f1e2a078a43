"""Catalogue of the objectives of this package, and the type of its entries.

Command lines, help texts, refusals and ``docs/policies.md`` are derived from these values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from formulations.parameters import SERVICE
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel, require_pair_speeds
from morph_opt.scheduling.decision.objective import Objective, Stateless
from morph_opt.scheduling.policies.auto import DUE_AFTER, objective_for
from morph_opt.scheduling.policies.objectives.plain import Jct, Lookahead, SavedTime, Throughput
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.published import TIRESIAS
from morph_opt.scheduling.policies.sizes import SIZES

if TYPE_CHECKING:
    from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex

Made_co = TypeVar("Made_co", covariant=True)
Maker = Callable[[SpeedModel, PolicyOptions], Made_co]


@dataclass(frozen=True, slots=True)
class PolicySpec(Generic[Made_co]):
    """Named policy, or named objective of the policy ``milp``.

    Parameters
    ----------
    name
        Name on command lines.
    make
        Function that makes it from the belief and the options; it imports what it needs when it
        is called, so that a round loads no policy but its own.
    rule
        Rule in one line.
    source
        Publication or author of the rule.
    page
        Page under ``docs`` that states the rule; "" if the line is enough.
    options
        Names of the `morph_opt.scheduling.policies.options.OPTIONS` that it knows; for an
        objective, those beyond `MILP_OPTIONS`. Every policy is put under ``rules``.
    rest
        Whether it needs the work that jobs have left: ``"no"``, ``"yes"``, or what instead.
    memory
        Whether it must see every round of the replay in order.
    prices
        Whether every GPU type needs a price.
    slices
        Whether it stops and starts jobs every round, so that starts must be shorter than a round.
    blind
        Whether it always sees estimates of the work that jobs have left.
    workers
        Whether it schedules jobs whose workers take turns on any number of GPUs: ``"no"``,
        ``"yes"``, or ``"only"`` if it schedules no others.
    draws
        Whether the seed changes its decisions: ``"no"``, ``"yes"``, or ``"packing"`` if only with
        that option.
    limits
        Use of time limits in place of the work left: ``""`` for none, ``"planned"`` if it plans by
        them where there are any, or ``"needed"`` if every job must have one.
    reasons
        Whether its decisions state why a job waits, by their evidence or `Decision.reason`.
    queues
        Whether its files state quotas and orders of queues, in place of those of a snapshot.
    reserves
        Whether it plans around maintenance, so that these rules need no wrapper.
    of_files
        Function that makes it from the text after its name and a colon; None if it takes none.
    own_times
        Constants of its rule in seconds or GPU-seconds, which do not follow the unit of a workload;
        "" if there are none.
    """

    name: str
    make: Maker[Made_co]
    rule: str
    source: str = "this project"
    page: str = ""
    options: tuple[str, ...] = ()
    rest: str = "no"
    memory: bool = False
    prices: bool = False
    slices: bool = False
    blind: bool = False
    workers: str = "no"
    draws: str = "no"
    own_times: str = ""
    limits: str = ""
    reasons: bool = False
    queues: bool = False
    reserves: bool = False
    of_files: Callable[[str], Maker[Made_co]] | None = None


ObjectiveSpec = PolicySpec[Objective[Any]]

LIMITS = f"queues up to {' and '.join(f'{n:,g}' for n in TIRESIAS.queue_limits_gpu_s)} GPU-s"
AMORTISED = f"start-ups charged to {SERVICE.amortise_s:g} s of service"
OWED = f"lags made up in {SERVICE.horizon_s:,g} s, start-ups charged to {SERVICE.amortise_s:g} s"
GUESSED = f"jobs of about {math.exp(SIZES.mean):,.0f} GPU-s before one has completed"
SAMPLES = "a published distribution of GPU-s"


def default_index() -> GittinsIndex:
    """Return the Gittins index of the generated twin; a policy also accepts other samples."""
    from morph_opt.inputs.traces.twins.tiresias import twin_samples
    from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex

    return GittinsIndex.of(twin_samples())


def pairs_of(belief: SpeedModel, options: PolicyOptions) -> PairSpeeds | None:
    """Return the measured speeds of pairs, or None without ``packing``."""
    return require_pair_speeds(belief) if options.packing else None


def _plain(
    objective: Stateless, rule: str, source: str, page: str, rest: str = "yes"
) -> ObjectiveSpec:
    """Return the specification of an objective that depends on the round's tables alone."""
    page = f"formulations/{page}.md"
    return PolicySpec(
        objective.name, lambda *_: objective, rule, source, page, rest=rest, workers="yes"
    )


def _ratios(name: str, rule: str, page: str, *known: str, source: str = "Gavel") -> ObjectiveSpec:
    """Return an objective that evens out finish-time ratios to the shares of a Gavel policy."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
        from morph_opt.scheduling.policies.objectives.follow_shares import EqualiseRatios

        return EqualiseRatios(belief, name, options.entity_weights)

    page = f"formulations/{page}.md"
    return PolicySpec(name, make, rule, source, page, known, "yes", memory=True)


def _shares(name: str, rule: str, rest: str = "no") -> ObjectiveSpec:
    """Return an objective that follows the shares of a Gavel policy."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
        from morph_opt.scheduling.policies.objectives.follow_shares import FollowShares

        return FollowShares(belief, name, pairs_of(belief, options))

    page = "formulations/fairness.md"
    return PolicySpec(name, make, rule, "Gavel", page, (), rest, memory=True, own_times=OWED)


def _makespan(belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
    from morph_opt.scheduling.policies.objectives.follow_shares import Makespan

    return Makespan(belief, pairs_of(belief, options))


def _cost(belief: SpeedModel, _: PolicyOptions) -> Objective[Any]:
    from morph_opt.scheduling.policies.objectives.follow_shares import CostWithSlos

    return CostWithSlos(belief)


def _queued(options: PolicyOptions, name: str, *, gittins: bool, rigid: bool) -> Objective[Any]:
    """Return the objective of Tiresias' queues."""
    from morph_opt.scheduling.policies.objectives.attained_service import QueuedService

    index = default_index() if gittins else None
    return QueuedService(name, starvation_knob=options.starvation_knob, index=index, rigid=rigid)


def _service(name: str, rule: str, *, gittins: bool = False, rigid: bool = False) -> ObjectiveSpec:
    """Return an objective of Tiresias' queues, by attained service or by Gittins index."""
    return PolicySpec(
        name,
        lambda _, options: _queued(options, name, gittins=gittins, rigid=rigid),
        rule,
        "Tiresias",
        f"formulations/{'gittins' if gittins else 'las'}.md",
        ("starvation_knob",),
        "its distribution" if gittins else "no",
        memory=True,
        own_times=", ".join((LIMITS, *((SAMPLES,) if gittins else ()), AMORTISED)),
    )


def _feedback(
    then: Maker[Objective[Any]] | None, name: str, rule: str, **more: Any
) -> ObjectiveSpec:
    """Return an objective of first reports, then equal turns or the objective of ``then``."""

    def make(belief: SpeedModel, options: PolicyOptions) -> Objective[Any]:
        from morph_opt.scheduling.policies.objectives.feedback import Feedback

        after = None if then is None else then(belief, options)
        return Feedback(belief, name, after, options.feedback_share)

    page, known = "formulations/feedback.md", ("feedback_share",)
    return PolicySpec(name, make, rule, page=page, options=known, slices=True, **more)


_OBJECTIVES: list[ObjectiveSpec] = [
    PolicySpec(
        "auto",
        lambda _, options: objective_for(options),
        "`saved-time`; with estimates `lookahead`, for workers `jct`; promises by weight",
        page="formulations/objectives.md",
        rest="yes",
        workers="yes",
        own_times=f"a job is due after a wait of {DUE_AFTER.wait_s:,g} s or more",
    ),
    _plain(
        Throughput(),
        "speed relative to the request, restarts priced; guarantees first",
        "Morphling",
        "objectives",
        rest="no",
    ),
    _plain(
        Jct(),
        "completions per second: shortest remaining time, for malleable jobs",
        "classical rule, restarts priced",
        "objectives",
    ),
    _plain(
        Lookahead(),
        "completion time saved, GPU-seconds priced by the backlog",
        "this project",
        "lookahead",
    ),
    _plain(
        SavedTime(),
        "completion time saved per root of the time that GPUs are held",
        "this project",
        "saved-time",
    ),
    PolicySpec(
        "jct-blind",
        lambda *_: Lookahead(name="jct-blind"),
        "`lookahead` on work left as guessed from jobs that have completed",
        "this project, Gittins",
        page="formulations/unknown-durations.md",
        blind=True,
        own_times=GUESSED,
    ),
    _ratios("fairness", "even finish times against max-min fair rates", "fairness"),
    _ratios(
        "fairness-agnostic",
        "`fairness` for a scheduler that cannot tell GPU types apart",
        "fairness",
    ),
    _ratios(
        "hierarchical",
        "fair between tenants, then between a tenant's jobs",
        "hierarchical",
        "entity_weights",
    ),
    _ratios(
        "hierarchical-fifo",
        "fair between tenants, then in order of arrival",
        "hierarchical",
        "entity_weights",
    ),
    _ratios("ftf", "the largest finish-time ratio", "finish-time", source="Themis, Gavel"),
    PolicySpec(
        "makespan",
        _makespan,
        "the end of the last job",
        "this project; Gavel on mixed types",
        page="formulations/makespan.md",
        rest="yes",
        memory=True,
        workers="yes",
        own_times=f"on several GPU types {OWED}",
    ),
    _shares("max_throughput", "most steps per second over all jobs"),
    PolicySpec(
        "cost",
        _cost,
        "service-level objectives (deadlines) first, then work per dollar",
        "Gavel",
        page="formulations/cost.md",
        rest="yes",
        memory=True,
        prices=True,
    ),
    _shares("fifo", "shares by arrival"),
    _shares("srpt", "shares by remaining time", rest="yes"),
    _feedback(
        None,
        "feedback",
        "first reports soon, then equal turns, then GPUs in use: rounds as time slices",
        source="Gandiva, this project",
    ),
    _feedback(
        lambda *_: Jct(),
        "feedback,jct",
        "first reports soon, then shortest remaining time",
        rest="yes",
    ),
    _feedback(
        lambda *_: _queued(PolicyOptions(), "las", gittins=False, rigid=False),
        "feedback,las",
        "first reports soon, then least attained service",
        memory=True,
        own_times=f"{LIMITS}, {AMORTISED}",
    ),
    _service("las", "least attained service first, spare GPUs to all jobs"),
    _service("gittins", "highest Gittins index first", gittins=True),
    _service("las-rigid", "`las` for requested GPU counts only", rigid=True),
    _service("gittins-rigid", "`gittins` for requested GPU counts only", gittins=True, rigid=True),
]

OBJECTIVES: dict[str, ObjectiveSpec] = {spec.name: spec for spec in _OBJECTIVES}
"""Objectives of the policy ``milp`` by name."""
