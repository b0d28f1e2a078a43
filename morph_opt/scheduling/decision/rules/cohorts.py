"""Rows of a tree of quotas, from `CohortQuota` rules.

Of a node, S is its own quota and what its children lend; K is what it keeps, ``max(0, S - lend)``;
its usage is the usage of its jobs and what its children use beyond what they keep. Then

    usage <= S                      of a root
    usage - e <= K, e <= S - K + B  of another, where e counts at its parent and B is ``borrow``

with e >= 0 an auxiliary column. Where owners come first, K is no less than the smaller of S and
what the jobs of the node and below it could use. A tree that is beyond a limit already, by jobs
that another rule keeps in place, stays solvable and gets no worse: what is missing above a node is
taken from what the node may still use (``docs/formulations/operator-rules.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from morph_opt.scheduling.decision.rules.queues import CohortQuota

_Key = tuple[str, str]


@dataclass(frozen=True)
class CohortForest:
    """Trees of quotas, one or more per pool.

    Parameters
    ----------
    quotas
        Nodes, in the order of the rules.
    base
        Amount at each node that stays whatever is decided; what `CohortQuota.used` has included.
    need
        Amount that the jobs at each node could use, where owners come first.
    """

    quotas: Sequence[CohortQuota]
    base: Sequence[float]
    need: Sequence[float]

    @cached_property
    def _index(self) -> Mapping[_Key, int]:
        return {(one.pool, one.name): at for at, one in enumerate(self.quotas)}

    def parent(self, at: int) -> int | None:
        """Return the parent of a node; None for a root, or if no rule has that parent."""
        one = self.quotas[at]
        return self._index.get((one.pool, one.parent)) if one.parent else None

    def orphan(self, at: int) -> bool:
        """Return whether a node names a parent that no rule has."""
        return bool(self.quotas[at].parent) and self.parent(at) is None

    @cached_property
    def children(self) -> list[list[int]]:
        """Nodes directly below each node."""
        found: list[list[int]] = [[] for _ in self.quotas]
        for at in range(len(self.quotas)):
            above = self.parent(at)
            if above is not None:
                found[above].append(at)
        return found

    @cached_property
    def order(self) -> list[int]:
        """All nodes, each after its children."""
        found: list[int] = []

        def visit(at: int) -> None:
            for child in self.children[at]:
                visit(child)
            found.append(at)

        for at in range(len(self.quotas)):
            if self.parent(at) is None:
                visit(at)
        return found

    @cached_property
    def _shares(self) -> tuple[list[float], list[float]]:
        """Quota of each node with what its children lend, and the part that it keeps."""
        count = len(self.quotas)
        subtree, kept, wanted = [0.0] * count, [0.0] * count, [0.0] * count
        for at in self.order:
            quota, below = self.quotas[at], self.children[at]
            subtree[at] = quota.gpus + sum(subtree[one] - kept[one] for one in below)
            kept[at] = 0.0 if quota.lend is None else max(0.0, subtree[at] - quota.lend)
            wanted[at] = self.need[at]
            for one in below:
                beyond = subtree[one] - kept[one] + _or_any(self.quotas[one].borrow)
                wanted[at] += min(max(0.0, wanted[one] - kept[one]), beyond)
            if quota.owners_first:
                kept[at] = max(kept[at], min(subtree[at], wanted[at]))
        return subtree, kept

    @property
    def subtree(self) -> list[float]:
        """Quota of each node plus the quotas that its children lend."""
        return self._shares[0]

    @property
    def kept(self) -> list[float]:
        """Part of its quota that each node keeps for itself."""
        return self._shares[1]

    @cached_property
    def most(self) -> list[float]:
        """Largest usage of each node if nothing else were in use."""
        found = [0.0] * len(self.quotas)
        for at in reversed(self.order):
            share, above = self.subtree[at], self.parent(at)
            found[at] = share
            if above is not None or self.orphan(at):
                found[at] += _or_any(self.quotas[at].borrow)
            if above is not None:
                found[at] = min(found[at], self.kept[at] + found[above])
        return found

    @cached_property
    def limits(self) -> list[tuple[float, float]]:
        """Largest usage of each node within its kept part, and beyond it.

        Of a root the first is its limit.
        """
        usage = list(self.base)
        for at in self.order:
            usage[at] += sum(max(0.0, usage[one] - self.kept[one]) for one in self.children[at])
        every = sum(one.gpus for one in self.quotas) + sum(usage)
        rooted = [False] * len(self.quotas)
        free = [0.0] * len(self.quotas)
        found = [(0.0, 0.0)] * len(self.quotas)
        for at in reversed(self.order):
            borrow, above = self.quotas[at].borrow, self.parent(at)
            kept, used, subtree = self.kept[at], usage[at], self.subtree[at]
            rooted[at] = rooted[above] if above is not None else not self.orphan(at)
            if above is None and not self.orphan(at):
                free[at] = subtree - used
                found[at] = max(subtree, used), 0.0
                continue
            beyond = max(0.0, used - kept)
            most = subtree - kept + _or_any(borrow)
            if self.quotas[at].owners_first:
                # An owner has what it keeps, whatever others hold beyond their limits.
                found[at] = kept, max(most, beyond)
                continue
            left = min(np.inf if above is None else free[above], most - beyond)
            free[at] = max(0.0, kept - used) + left
            if left >= 0.0:
                found[at] = kept, min(most, every) if rooted[at] else most
            elif used >= kept:
                found[at] = kept, beyond
            else:
                found[at] = used + max(0.0, kept - used + left), 0.0
        return found


def _or_any(limit: float | None) -> float:
    return np.inf if limit is None else limit
