"""Rows of rules under construction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.rule_table import RULE_S, RULE_U, RULE_X, RuleTable
from formulations.round.tables import RoundProblem

Entry = tuple[int, int, float]
"""Kind, index and coefficient of an entry of a row."""


class Rows:
    """Rows over the decisions of a round, one after the other.

    Parameters
    ----------
    problem
        The round.
    """

    def __init__(self, problem: RoundProblem) -> None:
        self._jobs, self._candidates = problem.jobs.count, problem.candidates.count
        self._name: list[str] = []
        self._label: list[tuple[int, ...]] = []
        self._limits: list[tuple[float, float]] = []
        self._kind: list[Ints] = []
        self._index: list[Ints] = []
        self._value: list[Floats] = []
        self._aux: list[float] = []

    def add(
        self,
        name: str,
        label: tuple[int, ...],
        entries: Sequence[Entry] = (),
        *,
        starts: Ints | None = None,
        amounts: Floats | None = None,
        lower: float = -np.inf,
        upper: float = np.inf,
    ) -> None:
        """Add a row of entries, and of candidates ``starts`` with their ``amounts`` before them."""
        first = np.zeros(0, dtype=np.int64) if starts is None else starts
        kind, index, value = zip(*entries, strict=True) if entries else ((), (), ())
        of_first = np.ones(first.size) if amounts is None else amounts
        self._name.append(name)
        self._label.append(label)
        self._limits.append((lower, upper))
        self._kind.append(np.concatenate([np.full(first.size, RULE_X), _whole(kind)]))
        self._index.append(np.concatenate([first, _whole(index)]))
        self._value.append(np.concatenate([of_first, np.asarray(value, dtype=np.float64)]))

    def column(self, most: float) -> int:
        """Add an auxiliary column with an upper limit and return its number."""
        self._aux.append(most)
        return len(self._aux) - 1

    def bound(self) -> Bools:
        """Return the jobs that a row keeps in place, shape (J,)."""
        return self._in_rows(RULE_S, self._jobs, [lower >= 1.0 for lower, _ in self._limits])

    def usable(self) -> Bools:
        """Return the candidates that no single row rules out, shape (K,)."""
        # A row in which another decision makes up for a candidate does not rule it out.
        closed = [
            upper <= 0.0 and not (value < 0.0).any()
            for (_, upper), value in zip(self._limits, self._value, strict=True)
        ]
        return ~self._in_rows(RULE_X, self._candidates, closed)

    def _in_rows(self, kind: int, count: int, wanted: Sequence[bool]) -> Bools:
        found = np.zeros(count, dtype=bool)
        for row in np.flatnonzero(wanted).tolist():
            found[self._index[row][self._kind[row] == kind]] = True
        return found

    def table(self) -> RuleTable:
        """Return the rows as arrays."""
        lower, upper = zip(*self._limits, strict=True) if self._limits else ((), ())
        none = np.zeros(0, dtype=np.int64)
        return RuleTable(
            tuple(self._name),
            tuple(self._label),
            np.asarray(lower, dtype=np.float64),
            np.asarray(upper, dtype=np.float64),
            np.repeat(np.arange(len(self._kind)), [one.size for one in self._kind]),
            np.concatenate([none, *self._kind]),
            np.concatenate([none, *self._index]),
            np.concatenate([none.astype(np.float64), *self._value]),
            np.asarray(self._aux, dtype=np.float64),
        )


def _whole(values: Sequence[int]) -> Ints:
    return np.asarray(values, dtype=np.int64)


__all__ = ["RULE_S", "RULE_U", "RULE_X", "Entry", "Rows"]
