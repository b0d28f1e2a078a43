"""Catalogue of the objectives of this package, and the type of its entries.

Command lines, help texts, refusals and ``docs/policies.md`` are derived from these values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from formulations.parameters import SERVICE
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel, require_pair_speeds
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.auto import objective_for
from morph_opt.scheduling.policies.objectives.attained_service import QueuedService
from morph_opt.scheduling.policies.objectives.cost import CostWithSlos
from morph_opt.scheduling.policies.objectives.feedback import Feedback
from morph_opt.scheduling.policies.objectives.finish_time_ratio import EqualiseRatios
from morph_opt.scheduling.policies.objectives.follow_shares import FollowShares, Makespan
from morph_opt.scheduling.policies.objectives.plain import Jct, Lookahead, SavedTime, Throughput
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.published import TIRESIAS
from morph_opt.scheduling.policies.sizes import SIZES
from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex

Made_co = TypeVar("Made_co", covariant=True)
Maker = Callable[[SpeedModel, PolicyOptions], Made_co]


@dataclass(frozen=True, slots=True)
class Needs:
    """Needs of a policy or objective beyond jobs, cluster and speeds.

    Parameters
    ----------
    prices
        Whether every GPU type needs a price.
    memory
        Whether it must see every round of the replay in order.
    rest
        Whether it needs the work that jobs have left: ``"no"``, ``"yes"``, or what instead.
    slices
        Whether it stops and starts jobs every round, so that starts must be shorter than a round.
    """

    prices: bool = False
    memory: bool = False
    rest: str = "no"
    slices: bool = False


@dataclass(frozen=True, slots=True)
class PolicySpec(Generic[Made_co]):
    """Named policy, or named objective of the policy ``milp``.

    Parameters
    ----------
    name
        Name on command lines.
    make
        Function that makes it from the belief and the options.
    rule
        Its rule in one line.
    source
        Publication, or who states the rule.
    page
        Page under ``docs`` that states it; "" if the line is enough.
    options
        Names of `morph_opt.scheduling.policies.options.OPTIONS` that it knows; for an objective,
        those beyond `MILP_OPTIONS`.
    needs
        See `Needs`.
    blind
        Whether it always sees estimates of the work that jobs have left.
    workers
        Whether it schedules jobs whose workers take turns on any number of GPUs: ``"no"``,
        ``"yes"``, or ``"only"`` if it schedules no others.
    draws
        Whether the seed changes its decisions: ``"no"``, ``"yes"``, or ``"packing"`` if only with
        that option.
    own_times
        Constants of its rule in seconds or GPU-seconds, which do not follow the unit of a workload;
        "" if there are none.
    """

    name: str
    make: Maker[Made_co]
    rule: str
    source: str
    page: str = ""
    options: tuple[str, ...] = ()
    needs: Needs = Needs()
    blind: bool = False
    workers: str = "no"
    draws: str = "no"
    own_times: str = ""


ObjectiveSpec = PolicySpec[Objective[Any]]

LIMITS = f"queues up to {' and '.join(f'{n:,g}' for n in TIRESIAS.queue_limits_gpu_s)} GPU-s"
AMORTISED = f"start-ups charged to {SERVICE.amortise_s:g} s of service"
OWED = f"lags made up in {SERVICE.horizon_s:,g} s, start-ups charged to {SERVICE.amortise_s:g} s"
GUESSED = f"jobs of about {math.exp(SIZES.mean):,.0f} GPU-s before one has completed"
SAMPLES = "a published distribution of GPU-s"


def default_index() -> GittinsIndex:
    """Return the Gittins index of the generated twin; a policy also accepts other samples."""
    from morph_opt.inputs.traces.twins.tiresias import twin_samples

    return GittinsIndex.of(twin_samples())


def pairs_of(belief: SpeedModel, options: PolicyOptions) -> PairSpeeds | None:
    """Return the measured speeds of pairs, or None without ``packing``."""
    return require_pair_speeds(belief) if options.packing else None


def _ratios(name: str, rule: str, source: str, page: str, *known: str) -> ObjectiveSpec:
    """Return an objective that evens out finish-time ratios to the shares of a Gavel policy."""
    return PolicySpec(
        name,
        lambda belief, options: EqualiseRatios(belief, name, options.entity_weights),
        rule,
        source,
        page=page,
        options=known,
        needs=Needs(memory=True, rest="yes"),
    )


def _shares(name: str, rule: str, rest: str = "no") -> ObjectiveSpec:
    """Return an objective that follows the shares of a Gavel policy."""
    return PolicySpec(
        name,
        lambda belief, options: FollowShares(belief, name, pairs_of(belief, options)),
        rule,
        "Gavel",
        page="formulations/fairness.md",
        needs=Needs(memory=True, rest=rest),
        own_times=OWED,
    )


def _feedback(
    name: str,
    then: Callable[[], Objective[Any]] | None,
    rule: str,
    source: str,
    needs: Needs,
    own_times: str = "",
) -> ObjectiveSpec:
    """Return an objective of first reports, then equal turns or the objective of ``then``."""
    return PolicySpec(
        name,
        lambda belief, options: Feedback(
            belief, name, None if then is None else then(), options.feedback_share
        ),
        rule,
        source,
        page="formulations/feedback.md",
        options=("feedback_share",),
        needs=needs,
        own_times=own_times,
    )


def _service(name: str, rule: str, *, gittins: bool = False, rigid: bool = False) -> ObjectiveSpec:
    """Return an objective of Tiresias' queues, by attained service or by Gittins index."""
    return PolicySpec(
        name,
        lambda _, options: QueuedService(
            name,
            starvation_knob=options.starvation_knob,
            index=default_index() if gittins else None,
            rigid=rigid,
        ),
        rule,
        "Tiresias",
        page=f"formulations/{'gittins' if gittins else 'las'}.md",
        options=("starvation_knob",),
        needs=Needs(memory=True, rest="its distribution" if gittins else "no"),
        own_times=", ".join((LIMITS, *((SAMPLES,) if gittins else ()), AMORTISED)),
    )


_OBJECTIVES: list[ObjectiveSpec] = [
    PolicySpec(
        "auto",
        lambda _, options: objective_for(options),
        "`saved-time`; with estimates `lookahead`, for workers `jct`; promises by weight",
        "this project",
        page="formulations/objectives.md",
        needs=Needs(rest="yes"),
        workers="yes",
    ),
    PolicySpec(
        "throughput",
        lambda *_: Throughput(),
        "speed relative to the request, restarts priced; guarantees first",
        "Morphling",
        page="formulations/objectives.md",
        workers="yes",
    ),
    PolicySpec(
        "jct",
        lambda *_: Jct(),
        "completions per second: shortest remaining time, for malleable jobs",
        "classical rule, restarts priced",
        page="formulations/objectives.md",
        needs=Needs(rest="yes"),
        workers="yes",
    ),
    PolicySpec(
        "lookahead",
        lambda *_: Lookahead(),
        "completion time saved, GPU-seconds priced by the backlog",
        "this project",
        page="formulations/lookahead.md",
        needs=Needs(rest="yes"),
        workers="yes",
    ),
    PolicySpec(
        "saved-time",
        lambda *_: SavedTime(),
        "completion time saved per root of the time that GPUs are held",
        "this project",
        page="formulations/saved-time.md",
        needs=Needs(rest="yes"),
        workers="yes",
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
    _ratios(
        "fairness",
        "even finish times against max-min fair rates",
        "Gavel",
        "formulations/fairness.md",
    ),
    _ratios(
        "fairness-agnostic",
        "`fairness` for a scheduler that cannot tell GPU types apart",
        "Gavel",
        "formulations/fairness.md",
    ),
    _ratios(
        "hierarchical",
        "fair between tenants, then between a tenant's jobs",
        "Gavel",
        "formulations/hierarchical.md",
        "entity_weights",
    ),
    _ratios(
        "hierarchical-fifo",
        "fair between tenants, then in order of arrival",
        "Gavel",
        "formulations/hierarchical.md",
        "entity_weights",
    ),
    _ratios("ftf", "the largest finish-time ratio", "Themis, Gavel", "formulations/finish-time.md"),
    PolicySpec(
        "makespan",
        lambda belief, options: Makespan(belief, pairs_of(belief, options)),
        "the end of the last job",
        "this project; Gavel on mixed types",
        page="formulations/makespan.md",
        needs=Needs(memory=True, rest="yes"),
        workers="yes",
        own_times=f"on several GPU types {OWED}",
    ),
    _shares("max_throughput", "most steps per second over all jobs"),
    PolicySpec(
        "cost",
        lambda belief, _: CostWithSlos(belief),
        "service-level objectives (deadlines) first, then work per dollar",
        "Gavel",
        page="formulations/cost.md",
        needs=Needs(prices=True, memory=True, rest="yes"),
    ),
    _shares("fifo", "shares by arrival"),
    _shares("srpt", "shares by remaining time", rest="yes"),
    _feedback(
        "feedback",
        None,
        "first reports soon, then equal turns, then GPUs in use: rounds as time slices",
        "Gandiva, this project",
        Needs(slices=True),
    ),
    _feedback(
        "feedback,jct",
        Jct,
        "first reports soon, then shortest remaining time",
        "this project",
        Needs(rest="yes", slices=True),
    ),
    _feedback(
        "feedback,las",
        lambda: QueuedService(rigid=False),
        "first reports soon, then least attained service",
        "this project",
        Needs(memory=True, slices=True),
        own_times=f"{LIMITS}, {AMORTISED}",
    ),
    _service("las", "least attained service first, spare GPUs to all jobs"),
    _service("gittins", "highest Gittins index first", gittins=True),
    _service("las-rigid", "`las` for requested GPU counts only", rigid=True),
    _service("gittins-rigid", "`gittins` for requested GPU counts only", gittins=True, rigid=True),
]

OBJECTIVES: dict[str, ObjectiveSpec] = {spec.name: spec for spec in _OBJECTIVES}
"""Objectives of the policy ``milp`` by name."""
