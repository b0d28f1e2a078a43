"""Dense table of the best start per job and kind of start, for evaluations in one pass.

If only GPUs have a price, then of a job's starts on equally many GPUs of a class only the one with
the largest value can be its best; if slots have prices, of those with the same parts. Large rounds
have few such kinds, so a table of kinds by jobs is small, and one pass over its rows finds the best
start of every job.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import alike_columns, stretches
from formulations.parameters import COLUMNS, ColumnParams
from formulations.round.tables import RoundProblem


class Sizes:
    """Best starts by kind (class and GPUs unless given), and stays.

    Parameters
    ----------
    problem
        A round without shared options and without options on nodes of several classes.
    value
        Value of each option, shape (O,).
    fine
        Whether an option may be chosen, shape (O,).
    idle
        Whether a job may have nothing, shape (J,).
    gpus
        GPUs of each option on open nodes, shape (O,).
    kind
        Kind of each start, shape (K,): starts of one kind pay the same; None for class and GPUs.
    params
        Limits of finding identical columns.

    Attributes
    ----------
    kind
        Kinds that occur, ascending, shape (S,).
    worth, option
        Value and index of the best start of each kind and job, -inf and -1 if none, shape (S, J).
    """

    def __init__(
        self,
        problem: RoundProblem,
        value: Floats,
        fine: Bools,
        idle: Bools,
        gpus: Floats,
        kind: Ints | None = None,
        params: ColumnParams = COLUMNS,
    ) -> None:
        table, options = problem.candidates, problem.options
        jobs, count = problem.jobs.count, table.count
        # Number configurations by class and GPUs; a candidate has its configuration's number.
        rows, row_of = table.templates
        which = row_of
        width = int(rows.gpus.max(initial=0)) + 1
        by_size = rows.node_class * width + rows.gpus
        if kind is not None:
            by_size, which = np.arange(int(kind.max(initial=0)) + 1, dtype=np.int64), kind
        whole = bool(fine[:count].all())
        used = np.bincount(which if whole else which[fine[:count]], minlength=by_size.size) > 0
        self.kind = known = np.flatnonzero(np.bincount(by_size[used], minlength=1))
        place = np.zeros(int(by_size.max(initial=0)) + 1, dtype=np.int64)
        place[known] = np.arange(known.size) * jobs
        row = place[by_size]
        # The last row marks jobs that may idle: identical jobs agree in all rows.
        by_kind = np.full((known.size + 1, jobs), -np.inf)
        by_kind[-1] = idle
        worth = by_kind.reshape(-1)
        option = np.full(known.size * jobs, -1, dtype=np.int32)
        # Stretch by stretch, because columns of a million candidates are slow to make; the last
        # stretch first, so that the first of equal starts is kept.
        every = [*stretches(count if known.size else 0)][::-1]
        for own in every:
            key = row[which[own]] + table.job[own]
            np.maximum.at(worth, key, np.where(fine[own], value[own], -np.inf))
        for own in every:
            key = row[which[own]] + table.job[own]
            hit = np.flatnonzero(fine[own] & (value[own] == worth[key]))[::-1]
            option[key[hit]] = own.start + hit
        self.worth, self.option = by_kind[:-1], option.reshape(known.size, jobs)
        self._distinct, self._like = alike_columns(by_kind, params)
        some = row_of[self.option.max(axis=1)] if jobs else known
        self._node_class, self._gpus = rows.node_class[some], rows.gpus[some].astype(np.float64)
        self._stay = np.flatnonzero(options.stay >= 0)
        stays = options.stay[self._stay]
        self._stay, stays = self._stay[fine[stays]], stays[fine[stays]]
        self._stay_option, self._stay_worth = stays, value[stays]
        self._stay_class, self._stay_gpus = options.node_class[stays], gpus[stays]

    def better(self, least: Floats, room: Floats, spare: Floats) -> Iterator[Ints]:
        """Yield, kind by kind, the best starts worth more than ``least`` to their jobs.

        Only those with at most the GPUs that the job's ``room``, (J,), and the ``spare`` of the
        class, (T,), add up to.
        """
        kinds = zip(self.worth, self.option, self._node_class, self._gpus, strict=True)
        for worth, option, t, gpus in kinds:
            yield option[(worth > least) & (room >= gpus - spare[t])].astype(np.int64)

    def best(self, price: Floats) -> tuple[Floats, Ints]:
        """Return each job's best reduced value and option at prices of GPUs per class."""
        surplus, choice = self.of_starts(price[self._node_class] * self._gpus)
        stays = self._stay_worth - price[self._stay_class] * self._stay_gpus
        continuing = stays > surplus[self._stay]
        mine = self._stay[continuing]
        surplus[mine], choice[mine] = stays[continuing], self._stay_option[continuing]
        return surplus, choice

    def of_starts(self, paid: Floats) -> tuple[Floats, Ints]:
        """Return each job's best reduced value and start at the prices ``paid`` of kinds."""
        *table, idle = self._distinct
        surplus = np.where(idle > 0.0, 0.0, -np.inf)
        # Kind + 1 of each job's best start, 0 for none: kinds ascend, so the last better one wins.
        number = np.result_type(np.int16, np.min_scalar_type(paid.size + 1))
        row, mine = np.zeros((2, surplus.size), dtype=number)
        earned, better = np.empty_like(surplus), np.empty(surplus.size, dtype=bool)
        for kind, pays in enumerate(paid.tolist()):
            np.subtract(table[kind], pays, out=earned)
            np.greater(earned, surplus, out=better)
            np.maximum(surplus, earned, out=surplus)
            np.multiply(better, number.type(kind + 1), out=mine)
            np.maximum(row, mine, out=row)
        if self._like is not None:
            surplus, row = surplus[self._like], row[self._like]
        starts = np.flatnonzero(row)
        choice = np.full(surplus.size, -1, dtype=np.int64)
        choice[starts] = self.option[row[starts] - 1, starts]
        return surplus, choice
