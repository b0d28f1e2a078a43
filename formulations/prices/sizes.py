"""What jobs may do by the GPUs that it takes, as a dense table: jobs beside classes and sizes.

Where nothing but GPUs has a price, of a job's starts on as many GPUs of a class only the one that
is worth most is ever its best. Large rounds have few sizes, so that a table of sizes by jobs is
small, and the best of every job is found in a pass over its rows.
"""

from __future__ import annotations

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.tables import RoundProblem


class Sizes:
    """Starts on one class by class and GPUs, and stays.

    Parameters
    ----------
    problem
        A round without shared options and without options on nodes of several classes.
    value
        Of each option, shape (O,).
    possible
        Options that may be chosen, ascending.
    idle
        Jobs that may have nothing, shape (J,).
    gpus
        GPUs of open nodes that each option holds, shape (O,).

    Attributes
    ----------
    node_class, gpus
        Of each size, shape (S,).
    worth, option
        The best start of each size and job, -inf and -1 where there is none, shape (S, J).
    """

    def __init__(
        self, problem: RoundProblem, value: Floats, possible: Ints, idle: Bools, gpus: Floats
    ) -> None:
        table, options = problem.candidates, problem.options
        jobs, count = problem.jobs.count, table.count
        self._idle = idle
        starts = possible[: int(np.searchsorted(possible, count))]
        width = int(table.gpus.max(initial=0)) + 1
        kind = table.node_class[starts] * width + table.gpus[starts]
        known = np.flatnonzero(np.bincount(kind, minlength=1))
        self.node_class, self.gpus = known // width, (known % width).astype(np.float64)
        place = np.zeros(int(known.max(initial=0)) + 1, dtype=np.int64)
        place[known] = np.arange(known.size)
        key = place[kind] * jobs + table.job[starts]
        mine = value[starts]
        worth = np.full(known.size * jobs, -np.inf)
        np.maximum.at(worth, key, mine)
        hit = np.flatnonzero(mine == worth[key])[::-1]
        option = np.full(known.size * jobs, -1, dtype=np.int64)
        option[key[hit]] = starts[hit]
        self.worth, self.option = worth.reshape(known.size, jobs), option.reshape(known.size, jobs)
        self._stay = np.flatnonzero(options.stay >= 0)
        stays = options.stay[self._stay]
        may = np.zeros(options.count - count, dtype=bool)
        may[possible[starts.size :] - count] = True
        self._stay, stays = self._stay[may[stays - count]], stays[may[stays - count]]
        self._stay_option, self._stay_worth = stays, value[stays]
        self._stay_class, self._stay_gpus = options.node_class[stays], gpus[stays]

    def best(self, price: Floats) -> tuple[Floats, Ints]:
        """What each job earns at most at prices of the GPUs of each class, and its option."""
        surplus = np.where(self._idle, 0.0, -np.inf)
        row = np.full(surplus.size, -1, dtype=np.int32)
        paid = (price[self.node_class] * self.gpus).tolist()
        earned, better = np.empty_like(surplus), np.empty(surplus.size, dtype=bool)
        for size, pays in enumerate(paid):
            np.subtract(self.worth[size], pays, out=earned)
            np.greater(earned, surplus, out=better)
            np.maximum(surplus, earned, out=surplus)
            np.copyto(row, size, where=better)
        starts = np.flatnonzero(row >= 0)
        choice = np.full(surplus.size, -1, dtype=np.int64)
        choice[starts] = self.option[row[starts], starts]
        stays = self._stay_worth - price[self._stay_class] * self._stay_gpus
        continuing = stays > surplus[self._stay]
        mine = self._stay[continuing]
        surplus[mine], choice[mine] = stays[continuing], self._stay_option[continuing]
        return surplus, choice
