"""Policies and objectives by name or import path, and the options that each of them knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from morph_opt.decision.ladder import Ladder
from morph_opt.decision.method import RoundMethod
from morph_opt.decision.objective import Objective
from morph_opt.decision.pose import RoundPoser
from morph_opt.decision.ranked import ExactMip, RoundSolver
from morph_opt.domain import InputError, Job, PlanFamily
from morph_opt.domain.arguments import kind_of
from morph_opt.domain.errors import typed
from morph_opt.domain.nearest import unknown
from morph_opt.extend import extension, made_by, require_allowed
from morph_opt.perf.speed import SpeedModel, require_pair_speeds
from morph_opt.policies.auto import promises_for
from morph_opt.policies.base import Policy
from morph_opt.policies.baselines import BASELINES, BaselineSpec
from morph_opt.policies.blind import Durations, EstimatingPolicy, Learnt, Noise
from morph_opt.policies.catalog import OBJECTIVES, Needs, PolicySpec
from morph_opt.policies.milp import MilpPolicy
from morph_opt.policies.options import MILP_OPTIONS, OPTIONS, PolicyOptions
from morph_opt.solvers.base import Solver
from morph_opt.solvers.outcome import Limits
from morph_opt.solvers.registry import make_solver

__all__ = [
    "BASELINES",
    "OBJECTIVES",
    "POLICIES",
    "PolicyOptions",
    "draws",
    "make_objective",
    "make_policy",
    "needs_of",
    "require_effect",
    "require_found",
    "require_named",
    "require_understood",
    "require_workers",
    "without_effect",
]


def make_objective(
    name: str, belief: SpeedModel | None = None, options: PolicyOptions | None = None
) -> Objective[Any]:
    """The objective of this name or import path.

    Parameters
    ----------
    belief
        Speeds that objectives with a memory go by; without a belief they are not made.
    options
        Options of the objective.

    Raises
    ------
    InputError
        If there is none.
    """
    spec = OBJECTIVES.get(name)
    if spec is not None and not (belief is None and spec.needs.memory):
        # An objective without memory looks at no speeds but those of the problem.
        return spec.make(cast(SpeedModel, belief), options or PolicyOptions())
    own = extension("morph_opt.objectives", name)
    if own is None:
        raise _unknown("objective", name, OBJECTIVES, "Class")
    made = made_by(own, name, "--objective", "objective(belief, options)", belief, options)
    if not isinstance(made, Objective):
        rule = f"{name!r} makes no objective: {kind_of(made)} is no morph_opt.Objective"
        raise InputError(rule, field="--objective")
    return made


def _milp(belief: SpeedModel, options: PolicyOptions) -> Policy:
    if options.formulation not in RoundSolver.FORMULATIONS:
        raise InputError(
            unknown("formulation", options.formulation, RoundSolver.FORMULATIONS),
            field="--formulation",
        )
    limits = Limits(
        gap=options.gap, time_s=options.time_limit_s, nodes=options.node_limit, seed=options.seed
    )
    method = _method(options)
    poser = RoundPoser(
        belief,
        make_objective(options.objective, belief, options),
        options.rules,
        require_pair_speeds(belief) if options.packing else None,
        promises=promises_for(options),
        compact_from=method.params.compact_from if isinstance(method, Ladder) else None,
        waste_filter=options.waste_filter,
    )
    return MilpPolicy(poser, method, limits)


def _method(options: PolicyOptions) -> RoundMethod:
    """How rounds are solved; nodes that are named rather than counted are left to the exact MIP."""
    solver = _solver(options)
    exact = ExactMip(solver, options.formulation)
    if options.method == "exact":
        return exact
    if options.method not in ("auto", "ladder"):
        raise InputError(
            unknown("method", options.method, ("exact", "ladder", "auto")), field="--method"
        )
    if options.formulation != "node_pattern":
        if options.method == "ladder":
            raise InputError(
                f"counts nodes, not with this {typed('--formulation')}", field="--method"
            )
        return exact
    return Ladder(solver)


def _solver(options: PolicyOptions) -> Solver:
    """The solver, if it knows the limits that it is given."""
    solver = make_solver(options.solver)
    if options.node_limit is not None and not solver.capabilities.node_limit:
        rule = f"solver {options.solver!r} does not know it (python -m morph_opt.solvers)"
        raise InputError(rule, field="--node-limit")
    return solver


POLICIES: Mapping[str, BaselineSpec] = {
    "milp": PolicySpec(
        "milp",
        _milp,
        "one MILP per round under an objective",
        "this project",
        "formulations/round.md",
        MILP_OPTIONS,
        draws="yes",
    ),
    **BASELINES,
}
"""Every policy by name."""


def _spec(policy: str, objective: str) -> PolicySpec[Any] | None:
    """What decides: the objective of ``milp``, or the policy; None for a user's own."""
    return OBJECTIVES.get(objective) if policy == "milp" else POLICIES.get(policy)


def needs_of(policy: str, objective: str) -> Needs:
    """What a policy needs; of a user's own nothing is known."""
    spec = _spec(policy, objective)
    return Needs() if spec is None else spec.needs


def draws(policy: str, *, packing: bool) -> bool:
    """Whether the seed has an effect on a policy; of a user's own nothing is known."""
    spec = POLICIES.get(policy)
    return spec is None or spec.draws == "yes" or (spec.draws == "packing" and packing)


def require_understood(policy: str, objective: str, given: Iterable[str]) -> None:
    """Refuse options that would be ignored.

    Parameters
    ----------
    policy, objective
        Names; the objective counts for ``milp`` only. A user's own policy gets every option; a
        user's own objective none but those of ``milp``.
    given
        Names of `morph_opt.policies.options.OPTIONS`.

    Raises
    ------
    InputError
        Naming the option and who knows it.
    """
    if policy not in POLICIES:
        return
    spec = _spec(policy, objective)
    known = {*POLICIES[policy].options, *(() if spec is None else spec.options)}
    for name in given:
        if name not in known:
            named = f"objective {objective!r}" if policy == "milp" else f"policy {policy!r}"
            rule = f"{named} does not know it; known to {_knowing(name)}"
            raise InputError(rule, field=OPTIONS[name].flag)


def require_effect(policy: str, options: PolicyOptions, jobs: Iterable[Job]) -> None:
    """Refuse options that change nothing for jobs like these, and jobs as `require_workers` does.

    Raises
    ------
    InputError
        Naming the option and why.
    """
    jobs = tuple(jobs)
    require_workers(policy, options, jobs)
    for name, why in without_effect(policy, options, jobs):
        raise InputError(f"has no effect: {why}", field=OPTIONS[name].flag)


def require_workers(policy: str, options: PolicyOptions, jobs: Sequence[Job]) -> None:
    """Refuse jobs of workers of policies of the package that do not know them, and the others.

    Raises
    ------
    InputError
        Naming the job and why, or the option that cannot be combined with it.
    """
    decides = _spec(policy, options.objective)
    workers = next((job for job in jobs if job.requested_plan.family is PlanFamily.EST), None)
    others = next((job for job in jobs if job.requested_plan.family is not PlanFamily.EST), None)
    if others is not None and decides is not None and decides.workers == "only":
        rule = f"has no workers that take turns ({others.requested_plan}), as {policy} needs"
        raise InputError(rule, field=f"job {others.name}")
    if workers is not None and decides is not None and decides.workers == "no":
        named = f"objective {options.objective!r}" if policy == "milp" else f"policy {policy!r}"
        rule = (
            f"has workers that take turns ({workers.requested_plan}), which {named} does not know"
        )
        raise InputError(rule, field=f"job {workers.name}")
    if workers is not None and options.rules.rules:
        rule = f"cannot be combined with workers that take turns, as job {workers.name} has"
        raise InputError(rule, field="--rules")


def without_effect(
    policy: str, options: PolicyOptions, jobs: Sequence[Job]
) -> Iterator[tuple[str, str]]:
    """Options that are set and change nothing for jobs like these, each with the reason.

    A replay refuses them; one round of many that are decided with the same options has a note.
    """
    changed = options.changed()
    mixes = any(job.requested_plan.determinism == "d2" for job in jobs)
    if "waste_filter" in changed and not mixes:
        yield "waste_filter", "no job has workers that may be on several GPU types"
    guaranteed = any(job.guaranteed for job in jobs)
    if policy == "milp" and "promises" in changed and not guaranteed:
        yield "promises", "no job is guaranteed"
    spec = OBJECTIVES.get(options.objective) if policy == "milp" else None
    if spec is not None and "durations" in changed:
        objective = f"objective {options.objective!r}"
        if spec.blind:  # promises, where there are any, go by the same guesses
            yield "durations", f"{objective} always guesses what jobs have left"
        elif spec.needs.rest != "yes" and not guaranteed:
            yield "durations", f"{objective} does not ask what jobs have left"
    tenants = {job.tenant for job in jobs}
    for name in options.entity_weights:
        if name not in tenants:
            yield "entity_weights", f"no job is of tenant {name!r}"


def _knowing(option: str) -> str:
    """Who knows an option, in words."""
    policies = [name for name, spec in POLICIES.items() if option in spec.options]
    objectives = [
        f"milp with {name}" for name, spec in OBJECTIVES.items() if option in spec.options
    ]
    return ", ".join((*policies, *objectives))


def make_policy(name: str, belief: SpeedModel, options: PolicyOptions) -> Policy:
    """The policy of this name or import path.

    Raises
    ------
    InputError
        If the policy, objective, solver or formulation is unknown, or an option is set that the
        policy does not know.
    """
    require_understood(name, options.objective, options.changed())
    spec = _spec(name, options.objective)
    policy = _made(name, belief, options)
    durations = Durations.parse(options.durations)
    if durations.blind or (spec is not None and spec.blind):
        return EstimatingPolicy(policy, Learnt(belief))
    return (
        EstimatingPolicy(policy, Noise(durations.sigma, options.seed))
        if durations.sigma
        else policy
    )


def require_named(policy: str, objective: str) -> None:
    """Refuse names that are not known, without making anything; import paths are not followed.

    Raises
    ------
    InputError
        Naming what is known.
    """
    if _is_slip(policy) or not _may_be("--policy", "morph_opt.policies", policy, POLICIES):
        raise _unknown("policy", policy, POLICIES, "factory")
    if policy == "milp" and not _may_be(
        "--objective", "morph_opt.objectives", objective, OBJECTIVES
    ):
        raise _unknown("objective", objective, OBJECTIVES, "Class")


def require_found(policy: str, objective: str) -> None:
    """Refuse import paths that lead nowhere, by following them; nothing is made.

    Raises
    ------
    InputError
        Saying what cannot be imported.
    """
    if policy not in POLICIES:
        extension("morph_opt.policies", policy)
    if policy == "milp" and objective not in OBJECTIVES:
        extension("morph_opt.objectives", objective)


def _is_slip(policy: str) -> bool:
    """Whether a name looks like an import path and is a slip in a built-in one."""
    families = {known.partition(":")[0] for known in POLICIES if ":" in known}
    return policy not in POLICIES and policy.partition(":")[0] in families


def _may_be(option: str, group: str, name: str, known: Iterable[str]) -> bool:
    """Whether a name is built in, announced by a package, or an import path."""
    if name in known:
        return True
    require_allowed(name, option)
    return ":" in name or extension(group, name) is not None


def _made(name: str, belief: SpeedModel, options: PolicyOptions) -> Policy:
    """The policy itself, which may be asked on what is not so."""
    if name in POLICIES:
        return POLICIES[name].make(belief, options)
    own = None if _is_slip(name) else extension("morph_opt.policies", name)
    if own is None:
        raise _unknown("policy", name, POLICIES, "factory")
    made = made_by(own, name, "--policy", "policy(belief, options)", belief, options)
    if not isinstance(made, Policy):
        rule = f"{name!r} makes no policy: {kind_of(made)} is no morph_opt.Policy"
        raise InputError(rule, field="--policy")
    if not hasattr(made, "name"):
        kind = kind_of(made)
        rule = f'{name!r} makes no policy yet: give class {kind} the line name = "{kind.lower()}"'
        raise InputError(rule, field="--policy")
    return made


def _unknown(what: str, name: str, known: Iterable[str], attribute: str) -> InputError:
    own = f"or package.module:{attribute} of your own"
    elsewhere = {"policy": OBJECTIVES, "objective": POLICIES}[what]
    if name in elsewhere:
        other = "an objective of the policy milp" if what == "policy" else "a policy"
        option = typed("--objective" if what == "policy" else "--policy")
        rule = f"{name!r} is {other}: give it as {option}"
        return InputError(rule, field=f"--{what}")
    return InputError(unknown(what, name, sorted(known), own), field=f"--{what}")
