"""Rules of queues: trees of quotas, orders, due starts, priorities and preferred nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from morph_opt.core.domain import InputError, Job
from morph_opt.core.domain._validate import (
    MOST_WHOLE,
    require_finite,
    require_int,
    require_name,
    require_unique,
)
from morph_opt.core.domain.round_state import MOST_S
from morph_opt.core.domain.units import HOUR_S
from morph_opt.scheduling.decision.rules.organisation import require_no_cycle
from morph_opt.scheduling.decision.rules.patterns import matches, require_patterns

_AFTER_EASY = re.compile(r"easy \+ ?(\d+(?:\.\d+)?) ?(s|min|h)")
_UNITS_S = {"s": 1.0, "min": 60.0, "h": HOUR_S}
_SHOWN = 4
"""Largest number of jobs that a sentence names."""


@dataclass(frozen=True, slots=True)
class CohortQuota:
    """A node of a tree of quotas: a queue with tenants, or a cohort of queues and cohorts.

    A node and all below it hold at most the sum of their quotas, plus what the node may borrow
    from the tree above it. What a node lends is limited by ``lend``; what it keeps is its own
    alone. Nodes of one ``pool`` make a tree; a parent that no rule names limits nothing.

    Parameters
    ----------
    name
        Name of the node, unique in its pool.
    gpus
        Quota of its own, in GPUs or in the unit of ``amounts``.
    pool
        Name of what is counted, for example a flavor of GPUs.
    parent
        Cohort that it is in; "" for the root of a tree.
    borrow, lend
        Most that it may hold beyond its quota, and lend of it; None: any amount.
    tenants
        Tenants whose jobs are counted at this node; () for cohorts.
    jobs
        Patterns of the tenants' jobs that are counted; () for all.
    amounts
        Amount of each entry of ``jobs``, wherever it runs; () where its GPUs are counted.
    node_types
        Patterns of the types of nodes on which they are counted; () for all.
    owners_first
        Whether amounts that its jobs and those below it could use are not lent.
    used
        Amount that is used by others than the jobs of the round.
    note
        Addition to messages about it, for example the amount in use.
    """

    name: str
    gpus: float
    pool: str = ""
    parent: str = ""
    borrow: float | None = None
    lend: float | None = None
    tenants: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    amounts: tuple[float, ...] = ()
    node_types: tuple[str, ...] = ()
    owners_first: bool = False
    used: float = 0.0
    note: str = ""

    def __post_init__(self) -> None:
        require_name("cohort_quota.name", self.name)
        for field in ("gpus", "borrow", "lend", "used"):
            value = getattr(self, field)
            if value is not None:
                require_finite(f"cohort_quota.{field}", value, at_least=0.0)
        for field in ("tenants", "jobs", "node_types"):
            require_patterns(f"cohort_quota.{field}", getattr(self, field), empty=True)
        if self.amounts and len(self.amounts) != len(self.jobs):
            rule = f"must have one entry for each of the {len(self.jobs)} jobs"
            raise InputError(rule, field="cohort_quota.amounts")
        for amount in self.amounts:
            require_finite("cohort_quota.amounts", amount, at_least=0.0)

    def amount_of(self, tenant: str, job: str, gpus: float) -> float:
        """Return the amount that a job with these GPUs on counted nodes uses of the quota."""
        if tenant not in self.tenants or (self.jobs and not matches(job, self.jobs)):
            return 0.0
        if not self.amounts:
            return gpus
        pairs = zip(self.jobs, self.amounts, strict=True)
        return next(amount for pattern, amount in pairs if matches(job, (pattern,)))

    def counts_on(self, node_type: str) -> bool:
        """Return whether jobs on nodes of a type count."""
        return not self.node_types or matches(node_type, self.node_types)

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        unit = "" if self.amounts else " GPUs"
        unit += f" of {self.pool}" if self.pool else ""
        if not self.tenants:
            return (
                f"quota: cohort {self.name}: its queues together hold at most the sum of their "
                f"quotas and {self.gpus:g}{unit} of its own{self._limits}"
            )
        return f"quota: queue {self.name} has {self.gpus:g}{unit}{self._limits}"

    @property
    def _limits(self) -> str:
        """Words for the place in the tree, its limits, and the note."""
        note = f" ({self.note})" if self.note else ""
        if not self.parent:
            return note
        borrow = "" if self.borrow is None else f", borrows at most {self.borrow:g}"
        lend = "" if self.lend is None else f", lends at most {self.lend:g}"
        return f", is in cohort {self.parent}{borrow}{lend}{note}"


@dataclass(frozen=True, slots=True)
class StrictOrder:
    """Rule: queued jobs start in this order, each only after the one listed before it."""

    jobs: tuple[str, ...]

    def __post_init__(self) -> None:
        require_patterns("strict_order.jobs", self.jobs)
        require_unique("strict_order.jobs", self.jobs)

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        shown = ", ".join(self.jobs[:_SHOWN]) + (", ..." if len(self.jobs) > _SHOWN else "")
        return f"strict_order: {shown} start in this order"


@dataclass(frozen=True, slots=True)
class Priority:
    """Goal: the value of these jobs ranks above the value of jobs of a lower level.

    Parameters
    ----------
    jobs
        Patterns of the jobs' names.
    level
        Higher levels come first; jobs that no rule names have level 0.
    """

    jobs: tuple[str, ...]
    level: int

    def __post_init__(self) -> None:
        require_patterns("priority.jobs", self.jobs)
        require_int("priority.level", self.level, at_least=-MOST_WHOLE)

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        shown = ", ".join(self.jobs[:_SHOWN]) + (", ..." if len(self.jobs) > _SHOWN else "")
        return f"priority: {shown} have level {self.level}"


@dataclass(frozen=True, slots=True)
class NodePreference:
    """Goal: if nothing else decides, these jobs start on the first of these node types.

    Parameters
    ----------
    jobs
        Patterns of the jobs' names.
    node_types
        Names of node types, best first; types that are not listed come last.
    """

    jobs: tuple[str, ...]
    node_types: tuple[str, ...]

    def __post_init__(self) -> None:
        require_patterns("node_preference.jobs", self.jobs)
        require_patterns("node_preference.node_types", self.node_types)

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        shown = ", ".join(self.jobs[:_SHOWN]) + (", ..." if len(self.jobs) > _SHOWN else "")
        return f"node_preference: {shown} prefer {', '.join(self.node_types)}"


@dataclass(frozen=True, slots=True)
class StartBy:
    """Rule: jobs that have waited for their due time start next, and then run until they end.

    It has either ``wait_s`` or ``no_later_than``. With the first a job is due once it has been
    without GPUs for ``wait_s + per_run_second * min(d, longest_run_s)`` seconds since its
    submission, with d the believed run time of its whole request, on the slowest GPU type that it
    can use. With the second it is due that time after its start in a virtual EASY schedule
    (`morph_opt.scheduling.decision.shadow`). Of several rules that name a job, the earliest due
    instant counts.

    Parameters
    ----------
    wait_s
        Seconds that any job may wait.
    per_run_second
        Further seconds per second of believed run time.
    jobs
        Patterns of the jobs' names.
    least_gpus
        Smallest request that the rule is about, in GPUs.
    longest_run_s
        Largest run time that counts; it keeps due instants of overestimated jobs near.
    no_later_than
        ``"easy + TIME"``, such as ``"easy + 8h"``, in s, min or h.
    restart_s
        With ``no_later_than``, seconds that the start-up of a job takes at most once it has run.
    """

    wait_s: float | None = None
    per_run_second: float = 0.0
    jobs: tuple[str, ...] = ("*",)
    least_gpus: int = 1
    longest_run_s: float = 8 * HOUR_S
    no_later_than: str | None = None
    restart_s: float | None = None

    def __post_init__(self) -> None:
        if (self.wait_s is None) == (self.no_later_than is None):
            raise InputError("must have either wait_s or no_later_than", field="start_by")
        if self.no_later_than is not None:
            if _AFTER_EASY.fullmatch(self.no_later_than) is None:
                rule = f'must be "easy + TIME", such as "easy + 8h", got {self.no_later_than!r}'
                raise InputError(rule, field="start_by.no_later_than")
            if self.restart_s is None:
                rule = "needs restart_s as well, the longest start-up of a job that has run"
                raise InputError(rule, field="start_by.no_later_than")
            if self.per_run_second or self.longest_run_s != 8 * HOUR_S:
                rule = "has neither per_run_second nor longest_run_s"
                raise InputError(rule, field="start_by.no_later_than")
        elif self.restart_s is not None:
            raise InputError("goes with no_later_than only", field="start_by.restart_s")
        require_patterns("start_by.jobs", self.jobs)
        require_int("start_by.least_gpus", self.least_gpus, at_least=1)
        for field in ("wait_s", "per_run_second", "longest_run_s", "after_easy_s", "restart_s"):
            value = getattr(self, field)
            if value is not None:
                name = "no_later_than" if field == "after_easy_s" else field
                require_finite(f"start_by.{name}", value, at_least=0.0, at_most=MOST_S)

    @property
    def after_easy_s(self) -> float | None:
        """Seconds from a job's start in the virtual EASY schedule to its due instant, or None."""
        found = _AFTER_EASY.fullmatch(self.no_later_than or "")
        return None if found is None else float(found[1]) * _UNITS_S[found[2]]

    def names(self, job: Job) -> bool:
        """Return whether the rule is about a job."""
        return job.requested_gpus >= self.least_gpus and matches(job.name, self.jobs)

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        shown = ", ".join(self.jobs[:_SHOWN]) + (", ..." if len(self.jobs) > _SHOWN else "")
        about = "jobs" if self.jobs == ("*",) else f"jobs {shown}"
        wide = "" if self.least_gpus == 1 else f" of {self.least_gpus} GPUs and more"
        if self.no_later_than is not None:
            return f"start_by: {about}{wide} start no later than {self.no_later_than}"
        more = f" and {self.per_run_second:g} x their run time" if self.per_run_second else ""
        return f"start_by: {about}{wide} start within {self.wait_s:g} s{more} of waiting"


def require_trees(quotas: Iterable[CohortQuota]) -> None:
    """Refuse cohorts that are below themselves.

    Raises
    ------
    InputError
        With the name of one of them.
    """
    pools: dict[str, dict[str, str]] = {}
    for quota in quotas:
        pools.setdefault(quota.pool, {})[quota.name] = quota.parent
    for parents in pools.values():
        require_no_cycle(parents, "cohort_quota.parent")


QUEUE_RULES = (CohortQuota, NodePreference, Priority, StrictOrder)
"""Rules that state what queues of a batch scheduler do."""
