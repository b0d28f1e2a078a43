"""Rules of an organisation: a tree of queues, priority classes, and limits of what runs at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from morph_opt.core.domain import InputError, Job
from morph_opt.core.domain._validate import require_finite, require_int, require_name
from morph_opt.core.domain.job import MOST_GPUS, MOST_PRIORITY
from morph_opt.scheduling.decision.rules.patterns import matches, require_patterns

ANY_TYPE = "*"
"""Name of all GPU types together in amounts of a queue."""

LOWER, NOTHING, OWN = "lower", "nothing", "own"
"""Jobs that a class may preempt: those of lower classes, none, or those of its own, too."""

_PREEMPTS = {
    LOWER: "may preempt lower classes",
    NOTHING: "preempt nothing",
    OWN: "may preempt their own and lower classes",
}

PER = ("user", "queue", "user_queue", "job", "all")
"""Jobs that count together at a limit."""

Amounts = Mapping[str, float]
"""GPUs by name of their type, or of all types together (`ANY_TYPE`)."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Queue of the tree of an organisation, with the GPUs that it owns.

    A queue owns what its own jobs and the queues below it own together. It has these GPUs
    whenever they have a job for them; what they could not use is lent to the queues next to it.
    Types of GPUs that no queue of a tree names are not limited.

    Parameters
    ----------
    name
        Name of the queue. `Job.tenant` is this name, or the names from the root to the queue,
        joined by dots.
    parent
        Queue above it; "" for the root of a tree.
    nominal
        GPUs that it owns, by type, or of any type for the key ``*``; empty for the sum of those of
        the queues below it.
    borrow, lend
        Most GPUs that it holds beyond its own, and most of its own that others hold, by type or
        for every type (``*``); a type that is not named: any number.
    weight
        Weight of its share among the queues next to it, for `Usage`.
    """

    name: str
    parent: str = ""
    nominal: dict[str, float] = field(default_factory=dict)
    borrow: dict[str, float] = field(default_factory=dict)
    lend: dict[str, float] = field(default_factory=dict)
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_name("queue.name", self.name)
        if self.parent:
            require_name("queue.parent", self.parent)
        for word in ("nominal", "borrow", "lend"):
            amounts = getattr(self, word)
            for kind, gpus in amounts.items():
                require_name(f"queue.{word}", kind)
                require_finite(f"queue.{word}", gpus, at_least=0.0, at_most=MOST_GPUS)
            if word != "nominal" and amounts and not self.parent:
                rule = f"is of no use: queue {self.name!r} has no parent that others share with it"
                raise InputError(rule, field=f"queue.{word}")
        if ANY_TYPE in self.nominal and len(self.nominal) > 1:
            rule = "must name either GPU types or a number of GPUs of any type"
            raise InputError(rule, field="queue.nominal")
        require_finite("queue.weight", self.weight, above=0.0)

    def most_borrowed(self, kind: str) -> float | None:
        """Return the most GPUs of a type that it holds beyond its own; None for any number."""
        return self.borrow.get(kind, self.borrow.get(ANY_TYPE))

    def most_lent(self, kind: str) -> float | None:
        """Return the most of its own GPUs of a type that others hold; None for any number."""
        return self.lend.get(kind, self.lend.get(ANY_TYPE))

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        own = _listed(self.nominal) or "no GPUs beyond those of the queues below it"
        below = f" is in {self.parent} and" if self.parent else ""
        more = "".join(
            f", {verb} at most {_listed(amounts)}"
            for verb, amounts in (("borrows", self.borrow), ("lends", self.lend))
            if amounts
        )
        return f"queue: {self.name}{below} has {own}{more}"


def _listed(amounts: Amounts) -> str:
    return " and ".join(
        f"{gpus:g} GPUs" if kind == ANY_TYPE else f"{gpus:g} {kind}"
        for kind, gpus in amounts.items()
    )


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """Class of jobs by their priorities; jobs of a higher class come first.

    Jobs whose priority is in no class come after those of all classes.

    Parameters
    ----------
    name
        Name of the class.
    priorities
        Lowest and highest `Job.priority` of its jobs, both included.
    preempts
        ``"lower"`` if its jobs may start on GPUs that running jobs of lower classes hold,
        ``"nothing"`` if they wait for free ones, ``"own"`` if the objective may also stop running
        jobs of the class for others of it.
    preemptible
        Whether running jobs of the class may be moved and stopped.
    """

    name: str
    priorities: tuple[float, float]
    preempts: str = LOWER
    preemptible: bool = True

    def __post_init__(self) -> None:
        require_name("class.name", self.name)
        low, high = self.priorities
        require_finite("class.priorities", low, at_least=-MOST_PRIORITY)
        require_finite("class.priorities", high, at_most=MOST_PRIORITY)
        if low > high:
            rule = f"must be a lowest and a highest priority, got {low:g} and {high:g}"
            raise InputError(rule, field="class.priorities")
        if self.preempts not in _PREEMPTS:
            rule = f"must be one of {', '.join(_PREEMPTS)}, got {self.preempts!r}"
            raise InputError(rule, field="class.preempts")

    def has(self, job: Job) -> bool:
        """Return whether a job is of the class."""
        low, high = self.priorities
        return low <= job.priority <= high

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        low, high = self.priorities
        preempts = _PREEMPTS[self.preempts]
        stays = "" if self.preemptible else " and are not preempted"
        return f"class: jobs of {self.name} (priority {low:g} to {high:g}) {preempts}{stays}"


@dataclass(frozen=True, slots=True)
class Usage:
    """Goal: jobs of queues that used more than their share are worth less.

    Parameters
    ----------
    half_life_s
        Seconds after which GPU-seconds that a queue received count half.
    used
        GPU-seconds of each tenant so far, decayed to the instant of the first round.
    least
        Smallest factor, so that no job is worth nothing.
    users
        Whether the users of a queue share what it has, equally, as its queues share a tree.
    used_by
        GPU-seconds of each user of a queue so far, by ``USER@QUEUE``, likewise; only with `users`.
    """

    half_life_s: float
    used: dict[str, float] = field(default_factory=dict)
    least: float = 0.001
    users: bool = False
    used_by: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_finite("usage.half_life_s", self.half_life_s, above=0.0)
        require_finite("usage.least", self.least, above=0.0, at_most=1.0)
        if self.used_by and not self.users:
            raise InputError("needs users = true", field="usage.used_by")
        for word in ("used", "used_by"):
            for name, gpu_s in getattr(self, word).items():
                require_name(f"usage.{word}", name)
                require_finite(f"usage.{word}", gpu_s, at_least=0.0)
        for name in self.used_by:
            if "@" not in name:
                raise InputError(f"must be USER@QUEUE, got {name!r}", field="usage.used_by")


@dataclass(frozen=True, slots=True)
class RunningLimit:
    """Rule: jobs that count together hold at most ``gpus`` GPUs, and at most ``jobs`` run at once.

    Parameters
    ----------
    per
        Jobs that count together: those of a ``user``, those of a ``queue`` and of all queues below
        it, those of a user in such a queue (``user_queue``), each ``job`` by itself, or ``all``.
    gpus, jobs
        Most GPUs and jobs at once; None for any number.
    users, queues, qos
        Patterns of `Job.user`, of names or paths of queues (`Job.tenant` without a tree), and of
        `Job.qos`. A pattern of a queue covers the queues below it.
    gpu_types
        Patterns of the GPU types that count; () for all.
    """

    per: str
    gpus: int | None = None
    jobs: int | None = None
    users: tuple[str, ...] = (ANY_TYPE,)
    queues: tuple[str, ...] = (ANY_TYPE,)
    qos: tuple[str, ...] = (ANY_TYPE,)
    gpu_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.per not in PER:
            rule = f"must be one of {', '.join(PER)}, got {self.per!r}"
            raise InputError(rule, field="limit.per")
        if self.gpus is None and self.jobs is None:
            raise InputError("must have one of gpus, jobs", field="limit")
        if self.per == "job" and self.jobs is not None:
            rule = "is of no use for each job by itself"
            raise InputError(rule, field="limit.jobs")
        for word in ("gpus", "jobs"):
            if getattr(self, word) is not None:
                require_int(f"limit.{word}", getattr(self, word), at_least=0)
        for word in ("users", "queues", "qos"):
            require_patterns(f"limit.{word}", getattr(self, word))
        require_patterns("limit.gpu_types", self.gpu_types, empty=True)

    def named(self, job: Job, tree: QueueTree) -> tuple[str, ...]:
        """Return the queues of a job that the limit names, the lowest first; () if it names none.

        Without a tree the queue of a job is its tenant.
        """
        if not (matches(job.user, self.users) and matches(job.qos, self.qos)):
            return ()
        return tuple(
            name
            for name, path in tree.lineage(job.tenant)
            if matches(name, self.queues) or matches(path, self.queues)
        )

    def counts_on(self, gpu_type: str) -> bool:
        """Return whether GPUs of a type count."""
        return not self.gpu_types or matches(gpu_type, self.gpu_types)

    @property
    def words(self) -> str:
        """Sentence that states the rule."""
        of = f" of {', '.join(self.gpu_types)}" if self.gpu_types else ""
        most = [] if self.gpus is None else [f"hold at most {self.gpus} GPUs{of}"]
        most += [] if self.jobs is None else [f"run at most {self.jobs} at once"]
        who = {
            "user": "jobs of a user",
            "queue": "jobs of a queue",
            "user_queue": "jobs of a user in a queue",
            "job": "jobs, each by itself,",
            "all": "jobs",
        }[self.per]
        about = "".join(
            f" of {word} {', '.join(patterns)}"
            for word, patterns in (
                ("users", self.users),
                ("queues", self.queues),
                ("QOS", self.qos),
            )
            if patterns != (ANY_TYPE,)
        )
        return f"limit: {who}{about} {' and '.join(most)}"


@dataclass(frozen=True)
class QueueTree:
    """Queues by name and path.

    Parameters
    ----------
    queues
        The queues.
    dropped
        Names of queues that were left out; what is below them is limited by nothing above it.
    """

    queues: Sequence[Queue]
    dropped: frozenset[str] = frozenset()

    @cached_property
    def by_name(self) -> Mapping[str, Queue]:
        """Queues by name."""
        return {queue.name: queue for queue in self.queues}

    @cached_property
    def _by_tenant(self) -> Mapping[str, Queue]:
        return {self.path(queue): queue for queue in self.queues} | dict(self.by_name)

    def of(self, tenant: str) -> Queue | None:
        """Return the queue of a tenant; None if it has none."""
        return self._by_tenant.get(tenant)

    @cached_property
    def _children(self) -> Mapping[str, Sequence[Queue]]:
        found: dict[str, list[Queue]] = {}
        for queue in self.queues:
            found.setdefault(queue.parent, []).append(queue)
        return found

    def below(self, name: str) -> Sequence[Queue]:
        """Return the queues directly below one."""
        return self._children.get(name, ())

    @cached_property
    def roots(self) -> Mapping[str, Queue]:
        """Root of the tree of each queue, by the name of the queue."""
        return {queue.name: [*self.line(queue)][-1] for queue in self.queues}

    def line(self, queue: Queue) -> Iterator[Queue]:
        """Yield a queue and the queues above it, up to the root."""
        at: Queue | None = queue
        while at is not None:
            yield at
            at = self.by_name.get(at.parent)

    def path(self, queue: Queue) -> str:
        """Return the names from the root to a queue, joined by dots.

        A name that begins with the path of its parent is a path itself.
        """
        above = self.by_name.get(queue.parent)
        before = "" if above is None else f"{self.path(above)}."
        return queue.name if queue.name.startswith(before) else f"{before}{queue.name}"

    def lineage(self, tenant: str) -> tuple[tuple[str, str], ...]:
        """Return name and path of a tenant's queue and of all above it; the tenant without one."""
        queue = self.of(tenant)
        if queue is None:
            return ((tenant, tenant),)
        return tuple((one.name, self.path(one)) for one in self.line(queue))

    def kinds(self, root: Queue) -> tuple[str, ...]:
        """Return the GPU types that queues of the tree below a root name, in order."""
        named: dict[str, None] = {}
        for queue in self.queues:
            if self.roots[queue.name] is root:
                named |= dict.fromkeys(queue.nominal)
        return tuple(named)

    def nominal(self, queue: Queue, kind: str) -> float:
        """Return the GPUs of a type that a queue owns, with those of the queues below it."""
        if queue.nominal:
            return queue.nominal.get(kind, 0.0)
        return sum(self.nominal(one, kind) for one in self.below(queue.name))

    def own(self, queue: Queue, kind: str) -> float:
        """Return the GPUs of a type that a queue owns beyond those of the queues below it."""
        below = sum(self.nominal(one, kind) for one in self.below(queue.name))
        return max(0.0, self.nominal(queue, kind) - below)


def require_queues(queues: Sequence[Queue], dropped: frozenset[str]) -> None:
    """Refuse queues that are no tree, or that own more than the queue above them.

    Raises
    ------
    InputError
        With the name of a queue.
    """
    tree = QueueTree(queues, dropped)
    parents = {queue.name: queue.parent for queue in queues}
    for queue in queues:
        if queue.parent and queue.parent not in parents and queue.parent not in dropped:
            known = ", ".join(name for name in parents if name != queue.name) or "none"
            rule = f"there is no queue {queue.parent!r} above {queue.name!r}; others are {known}"
            raise InputError(rule, field="queue.parent")
    require_no_cycle(parents, "queue.parent")
    typed = {tree.roots[one.name].name: one for one in queues if {*one.nominal} - {ANY_TYPE}}
    for queue in queues:
        root = tree.roots[queue.name]
        other = typed.get(root.name)
        if ANY_TYPE in queue.nominal and other is not None:
            rule = f"queue {queue.name!r} has GPUs of any type and {other.name!r} of some types: "
            raise InputError(f"{rule}a tree must count one way", field="queue.nominal")
        below = tree.below(queue.name)
        for kind in tree.kinds(root) if queue.nominal else ():
            most, lowest = tree.nominal(queue, kind), [tree.nominal(one, kind) for one in below]
            of = "GPUs" if kind == ANY_TYPE else kind
            for one, gpus in zip(below, lowest, strict=True):
                if gpus > most:
                    rule = f"queue {one.name!r} has {gpus:g} {of}, and its parent "
                    rule += f"{queue.name!r} has {most:g}"
                    raise InputError(rule, field="queue.nominal")
            if sum(lowest) > most:
                rule = f"the queues below {queue.name!r} have {sum(lowest):g} {of} together, "
                raise InputError(f"{rule}and it has {most:g}", field="queue.nominal")
    paths: dict[str, str] = {}
    for queue in queues:
        for name in {queue.name, tree.path(queue)}:
            if paths.setdefault(name, queue.name) != queue.name:
                rule = f"{name!r} is both queue {paths[name]!r} and queue {queue.name!r}"
                raise InputError(rule, field="queue.name")


def require_known_queues(limits: Iterable[RunningLimit], tree: QueueTree) -> None:
    """Refuse limits that name no queue of a tree; without a tree, tenants are queues.

    Raises
    ------
    InputError
        With the pattern and the queues.
    """
    if not tree.queues or tree.dropped:
        return
    names = [name for queue in tree.queues for name in (queue.name, tree.path(queue))]
    for limit in limits:
        for pattern in limit.queues:
            if not any(matches(name, (pattern,)) for name in names):
                known = ", ".join(queue.name for queue in tree.queues)
                rule = f"there is no queue {pattern!r}; the rules have {known}"
                raise InputError(rule, field="limit.queues")


def require_no_cycle(parents: Mapping[str, str], field: str) -> None:
    """Refuse names that are below themselves.

    Raises
    ------
    InputError
        With the name of one of them.
    """
    for name, first in parents.items():
        seen, at = {name}, first
        while at and at in parents:
            if at in seen:
                raise InputError(f"{at!r} is below itself", field=field)
            seen.add(at)
            at = parents[at]


def require_classes(classes: Iterable[PriorityClass]) -> None:
    """Refuse classes that share a priority.

    Raises
    ------
    InputError
        With the names of two of them.
    """
    ordered = sorted(classes, key=lambda one: one.priorities)
    for below, above in pairwise(ordered):
        if above.priorities[0] <= below.priorities[1]:
            rule = f"classes {below.name!r} and {above.name!r} share priority "
            raise InputError(f"{rule}{above.priorities[0]:g}", field="class.priorities")


def class_of(job: Job, classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the class of a job; None if its priority is in none."""
    return next((one for one in classes if one.has(job)), None)
