"""Policies from a `Scheduler`: checks of its names, its belief about speeds, and its learning."""

from __future__ import annotations

from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.domain.options import changed
from morph_opt.inputs.perf.ests import elastic_speeds
from morph_opt.inputs.perf.speed import SpeedModel, require_pair_speeds
from morph_opt.inputs.perf.tables.feasible import FeasibleBelief
from morph_opt.inputs.perf.tables.tried import KEPT, PRIOR, TriedModel
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.online import OnlinePolicy
from morph_opt.scheduling.policies.options import OPTIONS, PolicyOptions, Scheduler
from morph_opt.scheduling.policies.registry import Decider, resolve
from morph_opt.scheduling.solvers.registry import require_named

BELIEFS = ("truth", "model", "table", "measured")


def require_scheduler(scheduler: Scheduler) -> None:
    """Refuse a scheduler that fails for every trace, without importing or making anything.

    Raises
    ------
    InputError
        For unknown names, and options that the policy does not know.
    """
    decider = resolve(scheduler.policy, scheduler.objective, follow=False)
    decider.require_understood(name for name in changed(scheduler) if name in OPTIONS)
    require_named(scheduler.solver)
    require_belief(scheduler)


def require_belief(scheduler: Scheduler) -> tuple[str, float | None]:
    """Return the belief's name and the prior of its pairs, if given: ``measured:0.7``.

    Raises
    ------
    InputError
        If the name is unknown, the prior is not a number in its range, or an option has no effect.
    """
    name, colon, number = scheduler.belief.partition(":")
    if name not in BELIEFS or (colon and name != "measured"):
        rule = unknown("belief", scheduler.belief, (*BELIEFS, "measured:PRIOR"))
        raise InputError(rule, field="--belief")
    try:
        prior = float(KEPT.parse(number)) if colon else None
    except ValueError as error:
        raise InputError(f"the prior {error}", field="--belief") from error
    if prior is not None and not scheduler.packing:
        rule = f"the prior of pairs has an effect together with {typed('--packing')} only"
        raise InputError(rule, field="--belief")
    if name == "measured" and scheduler.online_fit:
        rule = f"cannot be combined with {typed('--belief')} measured, which learns by itself"
        raise InputError(rule, field="--online-fit")
    return name, prior


def make_belief(scheduler: Scheduler, truth: SpeedModel) -> SpeedModel:
    """Return the belief of a scheduler: truth, built-in model, table, or measured speeds.

    Raises
    ------
    InputError
        As `require_belief`; if the measured table is not on this machine, or the speeds are of
        workers that take turns, where there is nothing to try.
    """
    name, prior = require_belief(scheduler)
    if name == "truth":
        return truth
    if name == "model":
        from morph_opt.inputs.perf.analytic.zoo import builtin_model

        return FeasibleBelief(builtin_model().extrapolated(), truth)
    if name == "table":
        from morph_opt.inputs.data import locate
        from morph_opt.inputs.traces.morphling import read_tables

        return FeasibleBelief(read_tables(locate("morphling")), truth)
    if elastic_speeds(truth) is not None:
        rule = "workers that take turns are equally fast anywhere: there is nothing to try"
        raise InputError(rule, field="--belief")
    return TriedModel(truth, PRIOR if prior is None else prior)


def learning_policy(
    decider: Decider,
    scheduler: Scheduler,
    belief: SpeedModel,
    truth: SpeedModel,
    options: PolicyOptions,
) -> Policy:
    """Return a new policy; its learning leaves the belief unchanged.

    Raises
    ------
    InputError
        If the policy cannot be made, or cannot learn.
    """
    if scheduler.packing and scheduler.online_fit:
        raise InputError(f"cannot be combined with {typed('--online-fit')}", field="--packing")
    if scheduler.packing:
        require_pair_speeds(truth)

    def make(known: SpeedModel) -> Policy:
        return decider.make(known, options)

    if isinstance(belief, TriedModel):
        return OnlinePolicy(belief.fresh(), truth, make, "--belief")
    if scheduler.online_fit:
        # Imported here, because only it needs linear algebra.
        from morph_opt.inputs.perf.fitting.online import OnlineModel

        return OnlinePolicy(OnlineModel(belief), truth, make)
    return make(belief)
