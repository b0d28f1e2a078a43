"""Trees of quotas with their usage: what a node keeps, lends, borrows and may still use."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """Quota of a node of a tree.

    Parameters
    ----------
    nominal
        Amount of its own.
    borrow, lend
        Most that it may hold beyond its quota, and lend of it; None: any amount.
    """

    nominal: float
    borrow: float | None = None
    lend: float | None = None


class QuotaNode:
    """Node of a tree of quotas with its usage.

    A node and all below it hold at most the sum of their quotas, plus what it may borrow from the
    tree above. What it keeps is its own alone. Amounts of the same number type stay exact.

    Parameters
    ----------
    limits
        Its quota.
    above
        The node above it; None for roots.
    unlimited
        Whether what is above it limits nothing.
    """

    __slots__ = ("_height", "_kept", "_subtree", "above", "below", "limits", "unlimited", "usage")

    def __init__(
        self, limits: Quota, above: QuotaNode | None = None, *, unlimited: bool = False
    ) -> None:
        self.limits = limits
        self.above = above
        self.unlimited = unlimited
        self.below: list[QuotaNode] = []
        self.usage: float = 0
        self._subtree: float | None = None
        self._kept: float | None = None
        self._height: int | None = None
        if above is not None:
            above.below.append(self)
            above._forget()

    def _forget(self) -> None:
        self._subtree = self._kept = self._height = None
        if self.above is not None:
            self.above._forget()

    @property
    def subtree(self) -> float:
        """Quota of the node plus the quotas that its children lend."""
        if self._subtree is None:
            lent = sum(child.subtree - child.kept for child in self.below)
            self._subtree = self.limits.nominal + lent
        return self._subtree

    @property
    def kept(self) -> float:
        """Part of the quota that the node lends to nobody."""
        if self._kept is None:
            lend = self.limits.lend
            self._kept = 0 if lend is None else max(0, self.subtree - lend)
        return self._kept

    @property
    def local(self) -> float:
        """Unused amount of what the node keeps."""
        return max(0, self.kept - self.usage)

    @property
    def free(self) -> float:
        """Amount that the node may still use; negative if a limit is exceeded already."""
        if self.above is None and not self.unlimited:
            return self.subtree - self.usage
        borrow, kept = self.limits.borrow, self.kept
        free = math.inf if self.above is None else self.above.free
        if borrow is not None:
            lent = self.subtree - kept - max(0, self.usage - kept)
            free = min(free, lent + borrow)
        return max(0, kept - self.usage) + free

    @property
    def could(self) -> float:
        """Amount that the node could use if nothing were used anywhere."""
        if self.above is None and not self.unlimited:
            return self.subtree
        could = math.inf if self.above is None else self.kept + self.above.could
        if self.limits.borrow is not None:
            could = min(could, self.subtree + self.limits.borrow)
        return could

    @property
    def height(self) -> int:
        """Number of steps to the farthest node below it."""
        if self._height is None:
            self._height = 1 + max(child.height for child in self.below) if self.below else 0
        return self._height

    def add(self, amount: float) -> None:
        """Use an amount, or give back a negative one.

        What exceeds the node's kept part counts at the node above, so that the usage of every node
        depends on the usage of the leaves alone, whatever the order of additions.
        """
        kept = self.kept
        before = max(0, self.usage - kept)
        self.usage += amount
        beyond = max(0, self.usage - kept) - before
        if beyond and self.above is not None:
            self.above.add(beyond)

    def holds(self, amount: float = 0) -> bool:
        """Return whether its subtree's quota covers its usage and this amount more."""
        return self.usage + amount <= self.subtree

    def lowest_holding(self, amount: float) -> tuple[int, bool]:
        """Return the height of the lowest subtree that covers an amount of this node.

        The second value is whether that subtree is smaller than the tree. Where none covers it,
        the height is that of the tree.
        """
        node, left = self, amount
        while True:
            if node.holds(left):
                return node.height, node.above is not None
            if node.above is None:
                return node.height, False
            left -= node.local
            node = node.above
