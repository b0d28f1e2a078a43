"""Smallest sets of conflicting items: irreducible first, then smallest.

Conflicts are monotone: a superset of a conflict is one. A deletion filter (Chinneck & Dravnieks,
ORSA J. Computing 1991) leaves an irreducible set in one test per item. Smaller ones are then
looked for by size; every set that proves consistent is grown to a maximal consistent one, inside
of which no conflict can lie, and subsets of those are passed over (the hitting-set duality of
Reiter 1987, Liffiton et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from morph_opt.decision.pose import PosedRound
from morph_opt.decision.rules.model import Rule
from morph_opt.domain import InputError
from morph_opt.explanation.case import Case

T = TypeVar("T")

MOST_SUBSETS = 200_000
"""Most subsets that are tested before a conflict is reported as irreducible only."""


@dataclass(frozen=True, slots=True)
class Conflict(Generic[T]):
    """Items that cannot all hold, though all but any one can.

    Parameters
    ----------
    items
        In their original order.
    smallest
        Whether no smaller set is in conflict; False when the search was cut short.
    """

    items: tuple[T, ...]
    smallest: bool


class RuleConflictError(InputError):
    """Operator's rules that no decision of the round can satisfy together.

    Parameters
    ----------
    conflict
        A smallest set of them.
    """

    def __init__(self, conflict: Conflict[Rule], *, file: str | None = None) -> None:
        self.conflict = conflict
        count = len(conflict.items)
        kind = "smallest" if conflict.smallest else "irreducible"
        them = "rule cannot be satisfied" if count == 1 else "rules contradict each other"
        super().__init__(f"{count} {them} in this round ({kind} set)", file=file, field="rules")

    @property
    def lines(self) -> tuple[str, ...]:
        """Return one line per rule."""
        return tuple(rule.words for rule in self.conflict.items)


def smallest_conflict(
    items: Sequence[T], conflicts: Callable[[tuple[T, ...]], bool], most: int = MOST_SUBSETS
) -> Conflict[T] | None:
    """Return a smallest subset that conflicts; None if all items together do not.

    Parameters
    ----------
    items
        Among several smallest sets the first in the order of the items is found.
    conflicts
        Monotone: true for every superset of a set for which it is true.
    most
        See `MOST_SUBSETS`.
    """
    chosen = range(len(items))

    known: dict[frozenset[int], bool] = {}

    def test(indices: Sequence[int]) -> bool:
        key = frozenset(indices)
        if key not in known:
            known[key] = conflicts(tuple(items[i] for i in sorted(key)))
        return known[key]

    if not test(chosen):
        return None
    kept = list(chosen)
    for i in chosen:
        rest = [k for k in kept if k != i]
        if test(rest):
            kept = rest
    consistent: list[frozenset[int]] = []
    looked = 0
    for size in range(len(kept)):
        for subset in combinations(chosen, size):
            looked += 1
            if looked > most:
                return Conflict(tuple(items[i] for i in kept), smallest=False)
            if any(grown.issuperset(subset) for grown in consistent):
                continue
            if test(subset):
                return Conflict(tuple(items[i] for i in subset), smallest=True)
            consistent.append(_grown(subset, chosen, test))
    return Conflict(tuple(items[i] for i in kept), smallest=True)


def _grown(
    subset: Sequence[int], everything: Sequence[int], test: Callable[[Sequence[int]], bool]
) -> frozenset[int]:
    """Grow a consistent set to a maximal one."""
    grown = list(subset)
    for i in everything:
        if i not in subset and not test([*grown, i]):
            grown.append(i)
    return frozenset(grown)


def rules_in_conflict(
    posed: PosedRound, case: Case, forced: tuple[int, ...] = ()
) -> Conflict[Rule] | None:
    """Return a smallest set of rules that leaves a round without any decision, or None.

    Parameters
    ----------
    posed
        The round under all of its rules.
    case
        Solver of the question.
    forced
        Candidates of which one must be chosen; then the set is what forbids it.
    """

    def conflicts(kept: tuple[Rule, ...]) -> bool:
        other = posed.under(posed.rules.only(kept))
        wanted = other.counterparts(posed, forced)
        if forced and not wanted:
            return True
        return not case.feasible(other, wanted)

    return smallest_conflict(posed.rules.rules, conflicts)
