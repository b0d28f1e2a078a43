"""Rows of a tree of quotas, from `CohortQuota` rules.

Of a node, S is its own quota and what its children lend; K is what it keeps, ``max(0, S - lend)``;
its usage is the usage of its jobs and what its children use beyond what they keep. Then

    usage <= S                      of a root
    usage - e <= K, e <= S - K + B  of another, where e counts at its parent and B is ``borrow``

with e >= 0 an auxiliary column. A tree that is beyond a limit already, by jobs that another rule
keeps in place, stays solvable and gets no worse: what is missing above a node is taken from what
the node may still use (``docs/formulations/operator-rules.md``).
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
    """

    quotas: Sequence[CohortQuota]
    base: Sequence[float]

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
    def subtree(self) -> list[float]:
        """Quota of each node plus the quotas that its children lend."""
        found = [0.0] * len(self.quotas)
        for at in self.order:
            lent = sum(
                found[child] - self._kept(child, found[child]) for child in self.children[at]
            )
            found[at] = self.quotas[at].gpus + lent
        return found

    def _kept(self, at: int, subtree: float) -> float:
        lend = self.quotas[at].lend
        return 0.0 if lend is None else max(0.0, subtree - lend)

    @cached_property
    def kept(self) -> list[float]:
        """Part of its quota that each node keeps for itself."""
        return [self._kept(at, subtree) for at, subtree in enumerate(self.subtree)]

    @cached_property
    def limits(self) -> list[tuple[float, float]]:
        """Largest usage of each node within its kept part, and beyond it.

        Of a root the first is its limit.
        """
        usage = list(self.base)
        for at in self.order:
            usage[at] += sum(max(0.0, usage[one] - self.kept[one]) for one in self.children[at])
        every = sum(one.gpus for one in self.quotas) + sum(usage)
        free = [0.0] * len(self.quotas)
        found = [(0.0, 0.0)] * len(self.quotas)
        for at in reversed(self.order):
            borrow, above = self.quotas[at].borrow, self.parent(at)
            kept, used, subtree = self.kept[at], usage[at], self.subtree[at]
            if above is None and not self.orphan(at):
                free[at] = subtree - used
                found[at] = max(subtree, used), 0.0
                continue
            beyond = max(0.0, used - kept)
            most = np.inf if borrow is None else subtree - kept + borrow
            left = min(np.inf if above is None else free[above], most - beyond)
            free[at] = max(0.0, kept - used) + left
            if left >= 0.0:
                found[at] = kept, min(most, every)
            elif used >= kept:
                found[at] = kept, beyond
            else:
                found[at] = used + max(0.0, kept - used + left), 0.0
        return found
