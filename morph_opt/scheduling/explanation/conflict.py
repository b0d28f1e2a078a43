"""Smallest sets of conflicting items: irreducible first, then smallest.

Conflicts are monotone: a superset of a conflict is one. A deletion filter (Chinneck & Dravnieks,
ORSA J. Computing 1991) leaves an irreducible set in one test per item. Smaller ones are then tested
by size. Every set that proves consistent is grown to a maximal consistent one; its subsets contain
no conflict and are skipped (the hitting-set duality of Reiter 1987, Liffiton et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

from morph_opt.core.domain import InputError
from morph_opt.scheduling.decision.deadline import Deadline
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.explanation.case import Case
from morph_opt.scheduling.explanation.report import EXPLAIN, UnexplainedError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Conflict(Generic[T]):
    """Items that cannot all hold, though all but any one can.

    Parameters
    ----------
    items
        Items in conflict, in their original order.
    smallest
        Whether no smaller set is in conflict; False if the search was cut short.
    irreducible
        Whether no proper subset is in conflict; False if not every subset was settled.
    """

    items: tuple[T, ...]
    smallest: bool
    irreducible: bool = True


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
        kind = f"{kind} set" if conflict.irreducible else "not all of them may be needed"
        them = "rule cannot be satisfied" if count == 1 else "rules contradict each other"
        super().__init__(f"{count} {them} in this round ({kind})", file=file, field="rules")

    @property
    def lines(self) -> tuple[str, ...]:
        """Return one line per rule."""
        return tuple(rule.words for rule in self.conflict.items)


def smallest_conflict(
    items: Sequence[T],
    conflicts: Callable[[tuple[T, ...]], bool | None],
    most: int = EXPLAIN.subsets,
    *,
    proven: bool = False,
) -> Conflict[T] | None:
    """Return a smallest subset in conflict; None if the items are not known to be in conflict.

    Of several smallest sets the first in the order of the items is found. If ``conflicts`` does not
    settle every question, the result is a set in conflict that may not be a smallest one.

    Parameters
    ----------
    items
        Items, all of which may be in conflict together.
    conflicts
        Return whether a set is in conflict, None if that is not known. Monotone: true for every
        superset of a set for which it is true.
    most
        See ``ExplainParams.subsets``.
    proven
        Whether all items are known to be in conflict.
    """
    chosen = range(len(items))
    known: dict[frozenset[int], bool] = {frozenset(chosen): True} if proven else {}
    unsettled = False

    def test(indices: Sequence[int]) -> bool:
        nonlocal unsettled
        key = frozenset(indices)
        if key not in known:
            answer = conflicts(tuple(items[i] for i in sorted(key)))
            unsettled |= answer is None
            known[key] = bool(answer)
        return known[key]

    def found(indices: Sequence[int], smallest: bool, irreducible: bool = True) -> Conflict[T]:
        return Conflict(tuple(items[i] for i in indices), smallest, irreducible)

    if not test(chosen):
        return None
    kept = list(chosen)
    for i in chosen:
        rest = [k for k in kept if k != i]
        if test(rest):
            kept = rest
    if unsettled:
        return found(kept, smallest=False, irreducible=False)
    consistent: list[frozenset[int]] = []
    looked = 0
    for size in range(len(kept)):
        for subset in combinations(chosen, size):
            looked += 1
            if looked > most or unsettled:
                return found(kept, smallest=False)
            if any(grown.issuperset(subset) for grown in consistent):
                continue
            if test(subset):
                return found(subset, smallest=not unsettled)
            consistent.append(_grown(subset, chosen, test))
    return found(kept, smallest=not unsettled)


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
    posed: PosedRound,
    case: Case,
    forced: tuple[int, ...] = (),
    deadline: Deadline | None = None,
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
    deadline
        End of the search for a round whose rules are proven to be in conflict. None if the rules
        may not be in conflict; then every subset is tested.

    Raises
    ------
    UnexplainedError
        Without a deadline, if the solver found no answer within its limits.
    """

    def conflicts(kept: tuple[Rule, ...]) -> bool | None:
        if deadline is not None and deadline.passed():
            return None
        other = posed.under(posed.rules.only(kept))
        wanted = other.counterparts(posed, forced)
        if forced and not wanted:
            return True
        try:
            return not case.feasible(other, wanted, deadline)
        except UnexplainedError:
            if deadline is None:
                raise
            return None

    return smallest_conflict(posed.rules.rules, conflicts, proven=deadline is not None)
