"""Dynamic programming over GPUs: the largest value of jobs on the GPUs left for them."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import strides
from formulations.knapsack.items import Items
from formulations.parameters import KNAPSACK, KnapsackParams
from formulations.tolerances import ROUNDING

Slices = tuple[slice, ...]


class Tables:
    """Largest value of the jobs from each place on, by the GPUs left for them.

    Parameters
    ----------
    items
        Items of a round.
    params
        Size up to which one step takes all sizes of a job.

    Attributes
    ----------
    step
        Distance in a flat table that an item moves the state by, shape (I,).
    """

    def __init__(self, items: Items, params: KnapsackParams = KNAPSACK) -> None:
        self.items = items
        self._few = params.few_states
        self._shape = tuple(most + 1 for most in items.capacity)
        stride = [prod(self._shape[at + 1 :]) for at in range(len(self._shape))]
        self.step: list[int] = (items.sizes @ np.asarray(stride))[items.which].tolist()

    def takes_more_than(self, most: int) -> bool:
        """Return whether the tables need more than ``most`` additions."""
        states, jobs = prod(self._shape), len(self.items.job)
        if states * jobs * self.items.sizes.shape[0] <= most:
            return False
        return states * jobs > most or states * sum(map(len, self._sizes)) > most

    @cached_property
    def _worth(self) -> Floats:
        """Largest value of each job with each distinct size, shape (D, S)."""
        items, jobs, sizes = self.items, self.items.job.size, self.items.sizes.shape[0]
        key = np.repeat(np.arange(0, jobs * sizes, sizes), np.diff(items.start)) + items.which
        worth = np.full((jobs, sizes), -np.inf)
        np.maximum.at(worth.reshape(-1), key, items.value)
        return worth

    @cached_property
    def _sizes(self) -> list[list[tuple[tuple[int, ...], float]]]:
        """Sizes of each job that are worth more than all smaller ones, with their values."""
        items, jobs, gpus = self.items, self.items.job.size, self.items.sizes
        if items.core is not None:
            return self._few_sizes()
        worth = self._worth
        # Keep the sizes of one class that are worth more than every smaller size and than nothing.
        several = np.count_nonzero(gpus, axis=1) > 1
        nothing = worth[:, :1] if not gpus[0].any() else np.full((jobs, 1), -np.inf)
        fine = several & (worth > -np.inf)
        fine[:, :1] |= nothing > -np.inf
        for t in range(gpus.shape[1]):
            own = np.flatnonzero(~several & (gpus[:, t] > 0))
            mine = np.concatenate([nothing, worth[:, own]], axis=1)
            before = np.maximum.accumulate(mine, axis=1)[:, :-1]
            fine[:, own] = mine[:, 1:] > before
        sizes = [tuple(row) for row in gpus.tolist()]
        found: list[list[tuple[tuple[int, ...], float]]] = [[] for _ in range(jobs)]
        where = np.nonzero(fine)
        for job, at, most in zip(
            *(own.tolist() for own in where), worth[where].tolist(), strict=True
        ):
            found[job].append((sizes[at], most))
        return found

    def _few_sizes(self) -> list[list[tuple[tuple[int, ...], float]]]:
        """Return all sizes of a core, as few of them could be left out."""
        items, sizes = self.items, [tuple(row) for row in self.items.sizes.tolist()]
        start, which, value = items.start.tolist(), items.which.tolist(), items.value.tolist()
        found: list[list[tuple[tuple[int, ...], float]]] = []
        for first, last in pairwise(start):
            most: dict[int, float] = {}
            for item in range(first, last):
                if value[item] > most.get(which[item], -np.inf):
                    most[which[item]] = value[item]
            found.append([(sizes[size], most[size]) for size in sorted(most)])
        return found

    @cached_property
    def after(self) -> list[memoryview]:
        """Flattened rows of `table`: row i covers jobs i to D-1, and row D no job."""
        return [row.reshape(-1).data for row in self.table]

    @cached_property
    def table(self) -> Floats:
        """Largest value of jobs i..D-1 by free GPUs of each class, shape (D + 1, GPUs + 1, ..)."""
        jobs, states = self.items.job.size, prod(self._shape)
        if states * self.items.sizes.shape[0] <= self._few:
            rest, worth = (
                _rests(self._shape, tuple(map(tuple, self.items.sizes.tolist()))),
                self._worth,
            )
            # State 0, before all others, is for sizes that do not fit: worth -inf.
            flat = np.zeros((jobs + 1, 1 + states))
            flat[:, 0] = -np.inf
            for at in range(jobs - 1, -1, -1):
                behind = flat[at + 1].take(rest)
                behind += worth[at, :, None]
                np.maximum.reduce(behind, axis=0, out=flat[at, 1:])
            return flat[:, 1:].reshape(jobs + 1, *self._shape)
        table = np.empty((jobs + 1, *self._shape))
        table[jobs] = 0.0
        spare = np.empty(self._shape)
        for at in range(jobs - 1, -1, -1):
            _step(table[at + 1], self._sizes[at], table[at], spare)
        return table

    @property
    def rounding(self) -> float:
        """Largest rounding error of a sum of values."""
        return ROUNDING * self.items.size

    @property
    def bound(self) -> float:
        """Upper bound on the value of any decision of the round; -inf if there is none."""
        return max(self.best, self.items.left_out)

    @property
    def best(self) -> float:
        """Upper bound on the value of decisions with these items; -inf if there is none."""
        return self.after[0][-1] - self.items.promised

    def in_reach(self, least: float) -> Bools:
        """Return which items may be in a decision worth ``least``, shape (I,).

        An item bounds such a decision by its value, plus the best of the jobs before it and of
        those after it over all divisions of the other GPUs.
        """
        items, table = self.items, self.table
        least += items.promised - self.rounding
        before, spare = np.zeros(self._shape), np.empty(self._shape)
        fine = np.zeros(items.value.size, dtype=bool)
        turned = tuple(slice(None, None, -1) for _ in self._shape)
        start = items.start.tolist()
        for at, sizes in enumerate(self._sizes):
            mine = slice(start[at], start[at + 1])
            known: dict[tuple[int, ...], float] = {}
            for gpus in {tuple(row) for row in items.gpus[mine].tolist()}:
                room = tuple(
                    slice(0, size - own) for size, own in zip(self._shape, gpus, strict=True)
                )
                known[gpus] = float((before[room] + table[at + 1][room][turned]).max())
            others = np.asarray([known[tuple(row)] for row in items.gpus[mine].tolist()])
            fine[mine] = items.value[mine] + others >= least
            after = np.empty(self._shape)
            _step(before, sizes, after, spare)
            before = after
        return fine


def _step(
    before: Floats,
    sizes: list[tuple[tuple[int, ...], float]],
    out: Floats,
    spare: Floats,
) -> None:
    """Add one job to a table: the best of its sizes in every state."""
    if sizes and not any(sizes[0][0]):  # nothing, or a stay on closed nodes, fits every state
        np.add(before, sizes[0][1], out=out)
        sizes = sizes[1:]
    else:
        out.fill(-np.inf)
    for gpus, worth in sizes:
        here, rest = _slices(out.shape, gpus)
        mine = out[here]
        np.maximum(mine, np.add(before[rest], worth, out=spare[here]), out=mine)


@lru_cache(maxsize=256)
def _rests(shape: tuple[int, ...], sizes: tuple[tuple[int, ...], ...]) -> Ints:
    """Return 1 + the state left by each size in each state, 0 if the size does not fit."""
    free = np.indices(shape).reshape(len(shape), -1)
    left = free[None, :, :] - np.asarray(sizes)[:, :, None]
    fits = (left >= 0).all(axis=1)
    return np.where(fits, 1 + strides(np.asarray(shape)) @ left, 0)


@lru_cache(maxsize=4096)
def _slices(shape: tuple[int, ...], gpus: tuple[int, ...]) -> tuple[Slices, Slices]:
    """Return the states with room for a size, and the states that it leaves."""
    room = tuple(slice(own, None) for own in gpus)
    return room, tuple(slice(0, all_ - own) for all_, own in zip(shape, gpus, strict=True))
