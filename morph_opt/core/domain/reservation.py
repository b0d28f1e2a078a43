"""Nodes that are kept for some jobs, or for nobody, in an interval."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from morph_opt.core.domain._validate import require_finite, require_name
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.job import Job


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes kept for some jobs in an interval; a maintenance if for none.

    Parameters
    ----------
    name
        Its name.
    begin_s, end_s
        The interval, in seconds; its end may be infinite.
    nodes
        Names of the nodes, or shell patterns of names; None for all.
    users, tenants
        Owners whose jobs may use the nodes: users, or whole tenants. None of both for nobody.
    every_s
        Seconds after which it recurs; None if it does not.

    Raises
    ------
    InputError
        If it ends before it begins, or recurs sooner than it is over.
    """

    name: str
    begin_s: float
    end_s: float
    nodes: frozenset[str] | None = None
    users: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()
    every_s: float | None = None

    def __post_init__(self) -> None:
        require_name("name", self.name)
        require_finite("begin_s", self.begin_s)
        if not self.end_s > self.begin_s:
            rule = f"must be after its begin at {self.begin_s:g} s, got {self.end_s:g} s"
            raise InputError(rule, field=f"reservation {self.name}: end")
        if self.every_s is not None and not self.every_s >= self.end_s - self.begin_s:
            rule = f"must be at least its length, {self.end_s - self.begin_s:g} s"
            raise InputError(rule, field=f"reservation {self.name}: every")

    def admits(self, job: Job) -> bool:
        """Return whether a job may use the nodes in the interval."""
        return job.user in self.users or job.tenant in self.tenants

    def intervals(self, from_s: float, until_s: float) -> Iterator[tuple[float, float]]:
        """Yield its intervals that overlap with a span of time, the earliest first."""
        if self.every_s is None:
            if self.begin_s < until_s and self.end_s > from_s:
                yield self.begin_s, self.end_s
            return
        length_s = self.end_s - self.begin_s
        first = max(0, math.floor((from_s - self.begin_s - length_s) / self.every_s) + 1)
        begin_s = self.begin_s + first * self.every_s
        while begin_s < until_s:
            yield begin_s, begin_s + length_s
            begin_s += self.every_s
