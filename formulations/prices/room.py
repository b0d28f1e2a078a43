"""Room that options leave in rows, where auxiliary columns carry an excess from row to row.

In a tree of queues each row has an auxiliary column of its own, which counts in the row above it:
what a queue uses beyond the GPUs that it keeps. The smallest values of these columns are best for
all rows (`formulations.round.rules.broken_row`), so they follow from the use of the rows.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Ints
from formulations.prices.rows import Shared
from formulations.tolerances import FEASIBILITY

Change = list[tuple[int, float]]
"""Rows and the amounts by which their use changes."""


class Room:
    """Use of rows with upper limits by the options taken so far.

    Parameters
    ----------
    shared
        The rows.
    counted
        Whether a row counts, shape (D,).
    """

    def __init__(self, shared: Shared, counted: Bools) -> None:
        self._upper: list[float] = np.where(counted, shared.upper, np.inf).tolist()
        self._used = [0.0] * shared.count
        # The smallest excess that still counts, as in checks of a decision.
        self._near = [FEASIBILITY * max(1.0, abs(limit)) for limit in self._upper]
        by_option = shared.use.T.tocsr()
        self._start, self._row, self._value = by_option.indptr, by_option.indices, by_option.data
        self._own: dict[int, tuple[float, float, Change]] = {}
        for aux in range(shared.aux_upper.size):
            entries = shared.aux_use[:, aux]
            above = [(row, float(entries[row])) for row in np.flatnonzero(entries > 0.0).tolist()]
            for row in np.flatnonzero(entries < 0.0).tolist():
                self._own[row] = -float(entries[row]), float(shared.aux_upper[aux]), above

    def changes(self, option: int, sign: float = 1.0) -> Change:
        """Return the rows that an option uses, and the amounts times ``sign``."""
        span = slice(int(self._start[option]), int(self._start[option + 1]))
        rows, values = self._row[span].tolist(), self._value[span].tolist()
        return [(row, sign * value) for row, value in zip(rows, values, strict=True)]

    def take(self, changes: Change, forced: bool = False) -> bool:
        """Change the use of rows; return False, with no change, if that exceeds a limit.

        A change that makes no excess larger is always possible, and so is a ``forced`` one. Ends
        because no row of a tree is above itself.
        """
        used, left = dict[int, float](), list(changes)
        while left:
            row, more = left.pop()
            before = used.get(row, self._used[row])
            used[row] = now = before + more
            limit = self._upper[row]
            over, grown = max(0.0, before - limit), max(0.0, now - limit)
            if over == grown:
                continue
            own = self._own.get(row)
            most = 0.0 if own is None else own[0] * own[1]
            if not forced and grown > max(over, most) + self._near[row]:
                return False
            if own is not None:
                left += [(above, (grown - over) / own[0] * each) for above, each in own[2]]
        for row, now in used.items():
            self._used[row] = now
        return True

    def take_all(self, options: Ints) -> bool:
        """Take options together, the first ones; return False, with no change, if not possible."""
        total: dict[int, float] = {}
        for option in options.tolist():
            for row, value in self.changes(option):
                total[row] = total.get(row, 0.0) + value
        return self.take([*total.items()])
