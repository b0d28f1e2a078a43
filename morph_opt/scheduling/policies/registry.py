"""Policies and objectives by name or import path, and the options that each of them knows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from morph_opt.core.domain import InputError, Job, PlanFamily
from morph_opt.core.domain.arguments import kind_of, shown
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.extend import (
    extension,
    import_path,
    made_by,
    remember,
    require_allowed,
    require_complete,
)
from morph_opt.inputs.perf.speed import SpeedModel, require_pair_speeds
from morph_opt.scheduling.decision.ladder import Ladder
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.rules.model import Maintenance, NonPreemptible, OperatorRules
from morph_opt.scheduling.decision.rules.queues import QUEUE_RULES, StartBy
from morph_opt.scheduling.policies.auto import (
    AUTO,
    ahead_for,
    promises_for,
    require_shadow,
    reserves,
    start_by_for,
    turns_for,
)
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.baselines import BASELINES, BaselineSpec
from morph_opt.scheduling.policies.blind import (
    Bounded,
    Durations,
    EstimatingPolicy,
    Learnt,
    Noise,
)
from morph_opt.scheduling.policies.blind import Limits as TimeLimits
from morph_opt.scheduling.policies.catalog import OBJECTIVES, Maker, ObjectiveSpec, PolicySpec
from morph_opt.scheduling.policies.milp import MilpPolicy, method_of
from morph_opt.scheduling.policies.options import MILP_OPTIONS, OPTIONS, PolicyOptions
from morph_opt.scheduling.policies.ruled import Ruled
from morph_opt.scheduling.solvers.outcome import Limits

__all__ = [
    "BASELINES",
    "OBJECTIVES",
    "POLICIES",
    "Decider",
    "PolicyOptions",
    "draws",
    "make_objective",
    "make_policy",
    "policy_files",
    "require_reasons",
    "resolve",
    "with_policy_files",
]

AnyPolicy = str | Policy | Callable[..., Policy]
"""A policy by name or import path, as an object, or as the class or function that makes it."""
AnyObjective = str | Objective[Any] | Callable[..., Objective[Any]]
"""An objective by name or import path, as an object, or as the class or function that makes it."""
EVERY_JOB_STAYS = NonPreemptible(("*",))
"""Rule of snapshots for policies that do not know whom a batch scheduler may preempt."""
_GROUPS = {"policy": "morph_opt.policies", "objective": "morph_opt.objectives"}
_KINDS: dict[str, type[Any]] = {"policy": Policy, "objective": Objective}


def make_objective(
    name: str, belief: SpeedModel | None = None, options: PolicyOptions | None = None
) -> Objective[Any]:
    """Return the objective of this name or import path.

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
    spec = _spec("objective", name)
    if belief is None and spec.memory:
        raise InputError(f"objective {name!r} needs a belief", field="belief")
    # An objective without memory looks at no speeds but those of the problem.
    made: Objective[Any] = spec.make(cast(SpeedModel, belief), options or PolicyOptions())
    return made


def _spec(word: str, given: Any, *, follow: bool = True) -> PolicySpec[Any]:
    """Return the policy or objective that a caller gives by name or as a value; make nothing.

    Parameters
    ----------
    word
        ``"policy"`` or ``"objective"``.
    given
        Name, import path, object, or what makes one.
    follow
        Whether an import path is imported.

    Raises
    ------
    InputError
        If there is none of this name, or the value makes none.
    """
    if isinstance(given, str):
        if given in _KNOWN[word]:
            return _KNOWN[word][given]
        family, of_files, files = _of_files(word, given)
        if of_files is not None:
            return replace(_KNOWN[word][family], name=given, make=of_files(files))
        name, maker = given, _imported(word, given, follow=follow)
    else:
        name, maker = name_of_value(word, given), given
        remember(given, name)
        if isinstance(given, _KINDS[word]):
            # Every use gets a copy, so that none sees what another left in it.
            maker = lambda *_: copy.deepcopy(given)  # noqa: E731
    options = tuple(OPTIONS) if word == "policy" else ()
    make = partial(_made, word, name, maker)
    return PolicySpec(name, make, "", "", "", options, "yes", workers="yes", draws="yes")


def _imported(word: str, name: str, *, follow: bool) -> Any:
    """Return the object of a user's own name, or the import path itself if it is not followed."""
    # Of a family such as gavel, no other name is an import path.
    if not any(known.startswith(f"{name.partition(':')[0]}:") for known in _KNOWN[word]):
        if not follow:
            require_allowed(name, f"--{word}")
        found = name if ":" in name and not follow else extension(_GROUPS[word], name)
        if found is not None:
            return found
    other = "objective" if word == "policy" else "policy"
    if name in _KNOWN[other]:
        what = "an objective of the policy milp" if word == "policy" else "a policy"
        rule = f"{name!r} is {what}: give it as {typed(f'--{other}')}"
    else:
        own = f"or package.module:{'factory' if word == 'policy' else 'Class'} of your own"
        rule = unknown(word, name, sorted(_KNOWN[word]), own)
    raise InputError(rule, field=f"--{word}")


def _made(word: str, name: str, maker: Any, belief: SpeedModel, options: PolicyOptions) -> Any:
    """Make a caller's own policy or objective."""
    made = made_by(maker, name, f"--{word}", f"{word}(belief, options)", belief, options)
    kind = _KINDS[word]
    if not isinstance(made, kind):
        rule = f"{name!r} makes no {word}: {kind_of(made)} is no morph_opt.{kind.__name__}"
        raise InputError(rule, field=f"--{word}")
    if not hasattr(made, "name"):
        own = kind_of(made)
        rule = f'{name!r} makes no {word} yet: give class {own} the line name = "{own.lower()}"'
        raise InputError(rule, field=f"--{word}")
    return made


def _of_files(word: str, given: str) -> tuple[str, Callable[[str], Maker[Any]] | None, str]:
    """Return family, maker and files of a name such as ``slurm:slurm.conf``; no maker if none."""
    family, _, files = given.partition(":")
    found = _KNOWN[word][family].of_files if files and family in _KNOWN[word] else None
    return family, found, files


def policy_files(policy: str) -> tuple[str, ...]:
    """Return the files that a policy's name contains, such as ``slurm:slurm.conf,shares.txt``.

    Words like ``nodes=spread`` are none, and ``+FILE`` is FILE.
    """
    _, made_of, files = _of_files("policy", policy)
    named = (one.removeprefix("+") for one in files.split(",") if "=" not in one)
    return tuple(filter(None, named)) if made_of is not None else ()


def with_policy_files(policy: str, files: Sequence[str]) -> str:
    """Return a policy's name with other files, of equal number; unchanged if it has none."""
    family, made_of, named = _of_files("policy", policy)
    if made_of is None:
        return policy
    others = iter(files)
    parts = [
        one if "=" in one else f"{'+' * one.startswith('+')}{next(others)}"
        for one in named.split(",")
        if one
    ]
    return f"{family}:{','.join(parts)}"


def name_of_value(word: str, value: Any) -> str:
    """Return the name under which a policy or objective given as a value is recorded.

    Parameters
    ----------
    word
        ``"policy"`` or ``"objective"``.
    value
        An object, or a class or function that makes one from belief and options.

    Raises
    ------
    InputError
        If it is neither, or its class is abstract.
    """
    kind = _KINDS[word]
    if isinstance(value, kind):
        return import_path(value)
    made = isinstance(value, type) and issubclass(value, Policy | Objective)
    if not callable(value) or (made and not issubclass(value, kind)):
        rule = f"must be a name, an object of mo.{kind.__name__} or what makes one"
        raise InputError(f"{rule}, got {shown(value)}", field=word)
    require_complete(value, word)
    where = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', None) or ''}:{where}"


def _milp(
    belief: SpeedModel,
    options: PolicyOptions,
    objective: ObjectiveSpec | None = None,
    accuracy: Callable[[], float] | None = None,
) -> Policy:
    objective = objective or _spec("objective", options.objective)
    limits = Limits(
        gap=options.gap, time_s=options.time_limit_s, nodes=options.node_limit, seed=options.seed
    )
    require_shadow(options, blind=objective.blind)
    method = method_of(options)
    poser = RoundPoser(
        belief,
        objective.make(belief, options),
        options.rules,
        require_pair_speeds(belief) if options.packing else None,
        promises=promises_for(options),
        compact_from=method.params.compact_from if isinstance(method, Ladder) else None,
        waste_filter=options.waste_filter,
        start_by=start_by_for(options),
        turns=turns_for(options),
        accuracy=accuracy,
        ahead=ahead_for(options),
    )
    return MilpPolicy(poser, method, limits, every=options.method == "exact")


POLICIES: Mapping[str, BaselineSpec] = {
    "milp": PolicySpec(
        "milp",
        _milp,
        "one MILP per round under an objective",
        "this project",
        "formulations/round.md",
        MILP_OPTIONS,
        draws="yes",
        reasons=True,
    ),
    **BASELINES,
}
"""Every policy by name."""
_KNOWN: dict[str, Mapping[str, PolicySpec[Any]]] = {"policy": POLICIES, "objective": OBJECTIVES}


def draws(policy: str, *, packing: bool) -> bool:
    """Return whether the seed has an effect on a policy; True for a user's own."""
    spec = POLICIES.get(policy)
    return spec is None or spec.draws == "yes" or (spec.draws == "packing" and packing)


def require_reasons(policy: str, *, field: str | None = None, file: str | None = None) -> None:
    """Refuse policies of this package that never state why a job waits.

    Raises
    ------
    InputError
        Naming those that do, families once; a user's own may (`Decision.reason`).
    """
    spec = POLICIES.get(policy) or POLICIES.get(policy.partition(":")[0])
    if spec is None or spec.reasons:
        return
    *knowing, last = (name for name, one in POLICIES.items() if one.reasons and ":" not in name)
    rule = f"explains {', '.join(knowing)} and {last} only, not {policy!r}"
    raise InputError(rule, field=field, file=file)


@dataclass(frozen=True, slots=True)
class Decider:
    """A policy with its objective, found by name or given as values.

    Parameters
    ----------
    policy
        Policy; a user's own gets every option, and its needs are unknown.
    objective
        Objective of the policy ``milp``; None for others. A user's own knows only the options of
        ``milp``.
    """

    policy: BaselineSpec
    objective: ObjectiveSpec | None = None

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.policy.name

    @property
    def rule(self) -> PolicySpec[Any]:
        """Specification of the objective under ``milp``, else of the policy."""
        return self.policy if self.objective is None else self.objective

    @property
    def title(self) -> str:
        """Policy or objective in messages."""
        if self.objective is None:
            return f"policy {self.policy.name!r}"
        return f"objective {self.objective.name!r}"

    def make(self, belief: SpeedModel, options: PolicyOptions) -> Policy:
        """Make the policy.

        Raises
        ------
        InputError
            If it cannot be made, or an option is set that it does not know.
        """
        rules = options.rules
        if self.policy.queues and ":" in self.name:  # its files state what a snapshot has of queues
            own = (one for one in rules.rules if not isinstance(one, QUEUE_RULES))
            rules = replace(rules, rules=tuple(one for one in own if one != EVERY_JOB_STAYS))
        given = "rules" in options.changed()
        ruled = self.objective is None and given and not self.obeys(options.rules)
        self.require_understood(options.changed())
        if ruled:
            self._require_kept(options)
        durations = Durations.parse(options.durations)
        limits = TimeLimits(belief, learns=self.objective is not None and reserves(options))
        # What is learnt within limits needs no accuracy of theirs.
        told = durations.limits and not durations.learnt and limits.remembers
        accuracy = limits.accuracy if told else None
        if ruled:
            policy = self.policy.make(belief, options)
            if rules.rules or not options.rules.rules:
                policy = Ruled(policy, rules, belief)
        elif self.objective is None:
            policy = self.policy.make(belief, options)
        else:
            policy = _milp(belief, options, self.objective, accuracy)
        if durations.blind or self.rule.blind:
            return EstimatingPolicy(policy, Learnt(belief))
        if durations.limits and not self.rule.limits:
            return EstimatingPolicy(policy, Bounded(belief) if durations.learnt else limits)
        if durations.sigma:
            return EstimatingPolicy(policy, Noise(durations.sigma, options.seed))
        return policy

    def obeys(self, rules: OperatorRules) -> bool:
        """Return whether a policy other than ``milp`` obeys all of these rules by itself."""
        kinds = (Maintenance,) if self.policy.reserves else ()
        goals = rules.fewer_moves or rules.tighter_packing or rules.usage is not None
        return not goals and all(isinstance(one, kinds) for one in rules.rules)

    def require_rules(self, rules: OperatorRules) -> None:
        """Refuse rules of an operator's file that the policy could not be put under.

        Raises
        ------
        InputError
            Naming the first of them.
        """
        own = self.policy.queues and ":" in self.name
        for rule in rules.rules if own else ():
            if isinstance(rule, QUEUE_RULES):
                why = f"{self.title} has the queues of its own files; leave out {rule.words}"
                raise InputError(why, field="--rules")

    def _require_kept(self, options: PolicyOptions) -> None:
        """Refuse what cannot be combined with rules that the policy does not obey by itself.

        Raises
        ------
        InputError
            Naming it.
        """
        if any(isinstance(rule, StartBy) for rule in options.rules.rules):
            raise InputError("start_by is a rule of policy milp only", field="rules")
        if options.rules.usage is not None:
            raise InputError("usage is a rule of policy milp only", field="rules")
        if options.packing:
            rule = f"cannot be combined with {typed('--packing')} of {self.title}"
            raise InputError(rule, field="--rules")

    def require_understood(self, given: Iterable[str]) -> None:
        """Refuse options that the policy would ignore.

        Parameters
        ----------
        given
            Names of `morph_opt.scheduling.policies.options.OPTIONS`.

        Raises
        ------
        InputError
            Naming the option and who knows it.
        """
        for name in given:
            if name in self.policy.options or name in self.rule.options or name == "rules":
                continue  # every policy is put under rules
            knowing = [one for one, spec in POLICIES.items() if name in spec.options]
            knowing += [f"milp with {n}" for n, spec in OBJECTIVES.items() if name in spec.options]
            rule = f"{self.title} does not know it; known to {', '.join(knowing)}"
            raise InputError(rule, field=OPTIONS[name].flag)

    def require_effect(self, options: PolicyOptions, jobs: Iterable[Job]) -> None:
        """Refuse options without effect on jobs like these, and jobs as `require_workers` does.

        Raises
        ------
        InputError
            Naming the option and why.
        """
        jobs = tuple(jobs)
        self.require_workers(options, jobs)
        for name, why in self.without_effect(options, jobs):
            raise InputError(f"has no effect: {why}", field=OPTIONS[name].flag)

    def require_workers(self, options: PolicyOptions, jobs: Sequence[Job]) -> None:
        """Refuse jobs whose workers take turns, or do not, if the policy cannot schedule them.

        Raises
        ------
        InputError
            Naming the job and why, or the option that cannot be combined with it.
        """
        family = [job.requested_plan.family is PlanFamily.EST for job in jobs]
        workers = next((job for job, takes in zip(jobs, family, strict=True) if takes), None)
        others = next((job for job, takes in zip(jobs, family, strict=True) if not takes), None)
        if others is not None and self.rule.workers == "only":
            rule = f"has no workers that take turns ({others.requested_plan})"
            raise InputError(f"{rule}, as {self.name} needs", field=f"job {others.name}")
        if workers is not None and self.rule.workers == "no":
            rule = f"has workers that take turns ({workers.requested_plan})"
            rule += f", which {self.title} does not know"
            raise InputError(rule, field=f"job {workers.name}")
        if workers is not None and options.rules.rules:
            rule = f"cannot be combined with workers that take turns, as job {workers.name} has"
            raise InputError(rule, field="--rules")

    def without_effect(
        self, options: PolicyOptions, jobs: Sequence[Job]
    ) -> Iterator[tuple[str, str]]:
        """Yield options that are set and change nothing for jobs like these, with the reason.

        A replay refuses them; a single round only has a note, since other rounds may need them.
        """
        changed = options.changed()
        mixes = any(job.requested_plan.determinism == "d2" for job in jobs)
        if "waste_filter" in changed and not mixes:
            yield "waste_filter", "no job has workers that may be on several GPU types"
        guaranteed = any(job.guaranteed for job in jobs)
        told = Durations.parse(options.durations)
        if self.rule.limits and "durations" in changed and (not told.limits or told.learnt):
            yield "durations", f"{self.title} goes by time limits alone"
        if self.objective is not None and "promises" in changed and not guaranteed:
            yield "promises", "no job is guaranteed"
        if self.objective is not None and "durations" in changed:
            if self.objective.blind:  # promises, where there are any, go by the same guesses
                yield "durations", f"{self.title} always guesses what jobs have left"
            elif self.objective.rest != "yes" and not guaranteed:
                yield "durations", f"{self.title} does not ask what jobs have left"
        tenants = {job.tenant for job in jobs}
        for name in options.entity_weights:
            if name not in tenants:
                yield "entity_weights", f"no job is of tenant {name!r}"


def resolve(policy: AnyPolicy, objective: AnyObjective = AUTO, *, follow: bool = True) -> Decider:
    """Find a policy, and under ``milp`` its objective; nothing is made yet.

    Parameters
    ----------
    policy, objective
        Names, import paths, objects, or what makes them.
    follow
        Whether import paths are imported; otherwise nothing can be made of the user's own.

    Raises
    ------
    InputError
        If a name is unknown or cannot be imported, or a value makes no policy or objective.
    """
    spec = _spec("policy", policy, follow=follow)
    if spec is not POLICIES["milp"]:
        return Decider(spec)
    return Decider(spec, _spec("objective", objective, follow=follow))


def make_policy(policy: AnyPolicy, belief: SpeedModel, options: PolicyOptions) -> Policy:
    """Return a policy, with the objective of the options.

    Raises
    ------
    InputError
        If the policy, objective, solver or formulation is unknown, or an option is set that the
        policy does not know.
    """
    return resolve(policy, options.objective).make(belief, options)
