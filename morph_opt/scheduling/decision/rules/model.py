"""Rules as typed values with a sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from glob import escape

from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.domain._validate import (
    require_finite,
    require_int,
    require_name,
    require_unique,
)
from morph_opt.scheduling.decision.rules.organisation import (
    PriorityClass,
    Queue,
    QueueTree,
    RunningLimit,
    Usage,
    require_classes,
    require_known_queues,
    require_queues,
)
from morph_opt.scheduling.decision.rules.patterns import matches, require_patterns
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    NodePreference,
    Priority,
    StartBy,
    StrictOrder,
    require_trees,
)


@dataclass(frozen=True, slots=True)
class TenantQuota:
    """Rule: a tenant holds at most its quota, plus what it may borrow.

    Borrowed GPUs are those of other quotas that their owners' active jobs could not use, so an
    owner has its quota back in the round in which it needs it; only a borrower that another rule
    keeps in place gives back later. Tenants without a quota are not limited.

    Parameters
    ----------
    tenant
        Tenant (`Job.tenant`).
    gpus
        GPUs of its quota.
    borrow_gpus
        GPUs that it may hold beyond its quota; None: any number.
    """

    tenant: str
    gpus: int
    borrow_gpus: int | None = 0

    def __post_init__(self) -> None:
        require_name("quota.tenant", self.tenant)
        require_int("quota.gpus", self.gpus, at_least=0)
        if self.borrow_gpus is not None:
            require_int("quota.borrow_gpus", self.borrow_gpus, at_least=0)

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        more = (
            "and may borrow without limit"
            if self.borrow_gpus is None
            else f"and may borrow {self.borrow_gpus}"
        )
        return f"quota: tenant {self.tenant} has {self.gpus} GPUs {more}"


@dataclass(frozen=True, slots=True)
class MinimumRun:
    """Rule: a job that was (re)started less than ``seconds`` ago stays."""

    seconds: float
    jobs: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        require_finite("minimum_run.seconds", self.seconds, at_least=0.0)
        require_patterns("minimum_run.jobs", self.jobs)

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        about = "jobs" if self.jobs == ("*",) else f"jobs {', '.join(self.jobs)}"
        return f"minimum_run: {about} run at least {self.seconds:g} s before they are moved"


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """Rule: a job is restarted at most ``per_hour`` times within an hour; its first start is free.

    Every later start counts, also after a preemption or a failure. At least 1, so that a job that
    has lost its GPUs can always come back within the hour.
    """

    per_hour: int
    jobs: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        require_int("restart_limit.per_hour", self.per_hour, at_least=1)
        require_patterns("restart_limit.jobs", self.jobs)

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        about = "a job" if self.jobs == ("*",) else f"each of {', '.join(self.jobs)}"
        return f"restart_limit: {about} is restarted at most {self.per_hour} times an hour"


@dataclass(frozen=True, slots=True)
class NonPreemptible:
    """Rule: these jobs, once they run, stay until they complete."""

    jobs: tuple[str, ...]

    def __post_init__(self) -> None:
        require_patterns("non_preemptible.jobs", self.jobs)

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        return f"no_preemption: {', '.join(self.jobs)} are not moved while they run"


@dataclass(frozen=True, slots=True)
class NodeRule:
    """Rule: these jobs run only on some nodes or GPU types, or not on some.

    Parameters
    ----------
    jobs
        Patterns of the jobs' names.
    only_nodes, not_nodes
        Patterns of names of allowed and of forbidden nodes; empty: no such demand.
    only_gpu_types, not_gpu_types
        The same for GPU types.
    """

    jobs: tuple[str, ...]
    only_nodes: tuple[str, ...] = ()
    not_nodes: tuple[str, ...] = ()
    only_gpu_types: tuple[str, ...] = ()
    not_gpu_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_patterns("node_rule.jobs", self.jobs)
        demands = {
            "only_nodes": self.only_nodes,
            "not_nodes": self.not_nodes,
            "only_gpu_types": self.only_gpu_types,
            "not_gpu_types": self.not_gpu_types,
        }
        for field, patterns in demands.items():
            require_patterns(f"node_rule.{field}", patterns, empty=True)
        if not any(demands.values()):
            raise InputError(f"must have one of {', '.join(demands)}", field="node_rule")

    def allows(self, node: str, gpu_type: str) -> bool:
        """Return whether a node of that name and GPU type satisfies the rule."""
        return (
            (not self.only_nodes or matches(node, self.only_nodes))
            and not matches(node, self.not_nodes)
            and (not self.only_gpu_types or matches(gpu_type, self.only_gpu_types))
            and not matches(gpu_type, self.not_gpu_types)
        )

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        demands = [
            f"{verb} {', '.join(patterns)}"
            for verb, patterns in (
                ("only on nodes", self.only_nodes),
                ("not on nodes", self.not_nodes),
                ("only on GPU types", self.only_gpu_types),
                ("not on GPU types", self.not_gpu_types),
            )
            if patterns
        ]
        return f"node_rule: {', '.join(self.jobs)} run {' and '.join(demands)}"


@dataclass(frozen=True, slots=True)
class GangLimit:
    """Rule: these jobs hold between ``least`` and ``most`` GPUs whenever they run."""

    jobs: tuple[str, ...]
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        require_patterns("gang_limit.jobs", self.jobs)
        require_int("gang_limit.least", self.least, at_least=1)
        if self.most is not None:
            require_int("gang_limit.most", self.most, at_least=self.least)

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        most = "" if self.most is None else f" and at most {self.most}"
        return f"gang_limit: {', '.join(self.jobs)} hold at least {self.least}{most} GPUs"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Rule: these nodes are empty from ``start_s`` to ``end_s``.

    Parameters
    ----------
    nodes
        Patterns of node names.
    start_s, end_s
        Window in simulated seconds, start included, end not.
    lead_s
        Seconds before the window in which no job is placed there any more.
    """

    nodes: tuple[str, ...]
    start_s: float
    end_s: float
    lead_s: float = 0.0

    def __post_init__(self) -> None:
        require_patterns("maintenance.nodes", self.nodes)
        require_finite("maintenance.start_s", self.start_s)
        require_finite("maintenance.end_s", self.end_s, above=self.start_s)
        require_finite("maintenance.lead_s", self.lead_s, at_least=0.0)

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        return (
            f"maintenance: nodes {', '.join(self.nodes)} are empty from "
            f"{self.start_s:g} s to {self.end_s:g} s"
        )


Rule = (
    TenantQuota
    | MinimumRun
    | RestartLimit
    | NonPreemptible
    | NodeRule
    | GangLimit
    | Maintenance
    | CohortQuota
    | StrictOrder
    | Priority
    | NodePreference
    | StartBy
    | Queue
    | PriorityClass
    | RunningLimit
)


@dataclass(frozen=True, slots=True)
class OperatorRules:
    """All rules of a cluster, and goals that rank below the objective.

    Parameters
    ----------
    rules
        Rules in the order of the file.
    fewer_moves
        Rank after the objective: as few running jobs as possible are moved or preempted.
    tighter_packing
        Rank after that: as few nodes per job as possible; stopping a job never counts as fewer.
    usage
        Memory of what queues used, and its half-life; None without one.
    dropped
        Names of queues that were left out; what is below them is limited by nothing above it.

    Raises
    ------
    InputError
        If an object is no rule, or rules contradict each other.
    """

    rules: tuple[Rule, ...] = ()
    fewer_moves: bool = False
    tighter_packing: bool = False
    usage: Usage | None = None
    dropped: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        _require_rules(self.rules)
        quotas = [rule.tenant for rule in self.rules if isinstance(rule, TenantQuota)]
        require_unique("quota.tenant", quotas)
        places = [(r.pool, r.name) for r in self.rules if isinstance(r, CohortQuota)]
        if len(set(places)) < len(places):
            twice = next(place for place in places if places.count(place) > 1)
            rule = f"{twice[1]!r} is listed twice for pool {twice[0]!r}"
            raise InputError(rule, field="cohort_quota.name")
        require_trees([rule for rule in self.rules if isinstance(rule, CohortQuota)])
        queues = [rule for rule in self.rules if isinstance(rule, Queue)]
        require_unique("queue.name", (queue.name for queue in queues))
        require_queues(queues, self.dropped)
        limits = (rule for rule in self.rules if isinstance(rule, RunningLimit))
        require_known_queues(limits, self.tree)
        require_unique("class.name", (one.name for one in self.classes))
        require_classes(self.classes)

    @property
    def classes(self) -> tuple[PriorityClass, ...]:
        """Priority classes."""
        return tuple(rule for rule in self.rules if isinstance(rule, PriorityClass))

    @property
    def tree(self) -> QueueTree:
        """Queues by name and path."""
        queues = tuple(rule for rule in self.rules if isinstance(rule, Queue))
        return QueueTree(queues, self.dropped)

    @property
    def smallest_gang(self) -> int:
        """Largest ``least`` of all gang limits; 1 if there are none."""
        return max((rule.least for rule in self.rules if isinstance(rule, GangLimit)), default=1)

    def without(self, dropped: Rule) -> OperatorRules:
        """Return the rules without one of them."""
        return self.only(rule for rule in self.rules if rule is not dropped)

    def only(self, kept: Iterable[Rule]) -> OperatorRules:
        """Return the rules with only these."""
        chosen = list(kept)
        rules = tuple(rule for rule in self.rules if any(rule is other for other in chosen))
        queues, left = (
            {rule.name for rule in some if isinstance(rule, Queue)} for some in (self.rules, rules)
        )
        return replace(self, rules=rules, dropped=self.dropped | (queues - left))

    def with_node_like(self, cluster: Cluster, like: int, name: str) -> OperatorRules:
        """Return the rules for a cluster with one more node, under the rules of node ``like``.

        Patterns of nodes become the names that they match, so that the new name matches where
        ``like`` does and nowhere else.
        """
        names = [node.name for node in cluster.nodes]

        def named(patterns: tuple[str, ...]) -> tuple[str, ...]:
            known = [escape(other) for other in names if matches(other, patterns)]
            return (*known, *([escape(name)] if matches(names[like], patterns) else []))

        def meant(rule: Rule) -> Rule:
            if isinstance(rule, Maintenance):
                return replace(rule, nodes=named(rule.nodes))
            if isinstance(rule, NodeRule):
                return replace(
                    rule, only_nodes=named(rule.only_nodes), not_nodes=named(rule.not_nodes)
                )
            return rule

        return replace(self, rules=tuple(meant(rule) for rule in self.rules))


def _require_rules(stated: object) -> None:
    """Refuse anything but a tuple of rules: other objects would be ignored in silence."""
    if not isinstance(stated, tuple):
        raise InputError(f"must be a tuple of rules, got {stated!r}", field="rules")
    for position, one in enumerate(stated):
        if not isinstance(one, Rule):
            detail = f"must be a rule such as Queue(...), got {one!r}"
            raise InputError(detail, field=f"rules.{position}")
