"""Dynamic programming over GPUs: the largest value of jobs on the GPUs left for them."""

from __future__ import annotations

from copy import copy
from functools import cached_property, lru_cache
from math import prod

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.columns import strides
from formulations.knapsack.items import Goal, Items
from formulations.parameters import KNAPSACK, KnapsackParams
from formulations.tolerances import ROUNDING

Slices = tuple[slice, ...]


class Tables:
    """Largest value of the jobs from each place on, by the GPUs left for them.

    With several goals there is a table per goal. An item is *tight* for a goal at a place and a
    state if taking it there loses no more of the goal than decisions may lose. Its loss is the
    goal's table at the state, less the item's value, less the table of the jobs after it on the
    GPUs left. Decisions may lose the goal's best value less its least one. The table of the next
    goal is over tight items alone (theorem 5 of docs/formulations/knapsack.md).

    Parameters
    ----------
    items
        Items of a round.
    params
        Size up to which one step takes all sizes of a job.
    loss
        Share of its largest value, or of its sum, that a solved goal may lose to later ones.

    Attributes
    ----------
    goals, rank
        Goals, and the index of the one that is maximised.
    step
        Distance in a flat table that an item moves the state by, shape (I,).
    """

    def __init__(self, items: Items, params: KnapsackParams = KNAPSACK, loss: float = 0.0) -> None:
        self.items, self.rank, self._loss = items, items.rank, loss
        self.goals = items.goals or (Goal(items.value, items.size, -np.inf),)
        # The weighted sum of goals exceeds the value of the last one by this at least.
        self._promised = 0.0 if items.goals else items.promised
        self._few = params.few_states
        self._shape = tuple(most + 1 for most in items.capacity)
        stride = [prod(self._shape[at + 1 :]) for at in range(len(self._shape))]
        self.step: list[int] = (items.sizes @ np.asarray(stride))[items.which].tolist()

    def takes_more_than(self, most: int) -> bool:
        """Return whether the tables of one goal need more than ``most`` additions."""
        states, jobs = prod(self._shape), len(self.items.job)
        if states * jobs * self.items.sizes.shape[0] <= most:
            return False
        return states * jobs > most or states * sum(map(len, self._sizes[0])) > most

    def for_next(self, reached: float) -> Tables | None:
        """Return the tables with the next goal as the one that is maximised.

        None if there is no such goal, or if these tables assume a larger value of the present one.

        Parameters
        ----------
        reached
            Value of the present goal that was reached.
        """
        rank = self.rank + 1
        if rank == len(self.goals) or reached < self.bound - self.rounding:
            return None
        found = copy(self)
        found.rank = rank
        return found

    @cached_property
    def _worths(self) -> list[Floats]:
        """Largest value of each job with each distinct size, by goal; shape (D, S) each."""
        items, jobs, sizes = self.items, self.items.job.size, self.items.sizes.shape[0]
        key = np.repeat(np.arange(0, jobs * sizes, sizes), np.diff(items.start)) + items.which
        found = []
        for goal in self.goals:
            worth = np.full((jobs, sizes), -np.inf)
            np.maximum.at(worth.reshape(-1), key, goal.value)
            found.append(worth)
        return found

    @cached_property
    def _sizes(self) -> list[list[list[tuple[tuple[int, ...], float]]]]:
        """Sizes of each job with their values, by goal.

        With one goal, sizes that are worth no more than smaller ones are left out.
        """
        if len(self.goals) > 1 or self.items.core is not None:
            return [self._sizes_of(worth, worth > -np.inf) for worth in self._worths]
        gpus, worth = self.items.sizes, self._worths[0]
        # Keep the sizes of one class that are worth more than every smaller size and than nothing.
        several = np.count_nonzero(gpus, axis=1) > 1
        nothing = worth[:, :1] if not gpus[0].any() else np.full((worth.shape[0], 1), -np.inf)
        fine = several & (worth > -np.inf)
        fine[:, :1] |= nothing > -np.inf
        for t in range(gpus.shape[1]):
            own = np.flatnonzero(~several & (gpus[:, t] > 0))
            mine = np.concatenate([nothing, worth[:, own]], axis=1)
            before = np.maximum.accumulate(mine, axis=1)[:, :-1]
            fine[:, own] = mine[:, 1:] > before
        return [self._sizes_of(worth, fine)]

    def _sizes_of(self, worth: Floats, fine: Bools) -> list[list[tuple[tuple[int, ...], float]]]:
        sizes = [tuple(row) for row in self.items.sizes.tolist()]
        found: list[list[tuple[tuple[int, ...], float]]] = [[] for _ in range(worth.shape[0])]
        where = np.nonzero(fine)
        for job, at, most in zip(
            *(own.tolist() for own in where), worth[where].tolist(), strict=True
        ):
            found[job].append((sizes[at], most))
        return found

    def flat(self, rank: int) -> memoryview:
        """Return a goal's table, flattened: row i, of `states`, has jobs i to D-1, row D none."""
        return self.tables[rank].reshape(-1).data

    def left(self, state: int) -> tuple[int, ...]:
        """Return the GPUs of each class that are left in a state."""
        return tuple(int(gpus) for gpus in np.unravel_index(state, self._shape))

    @property
    def states(self) -> int:
        """Number of states of a row of a table."""
        return prod(self._shape)

    @property
    def table(self) -> Floats:
        """Largest value of jobs i..D-1 by free GPUs of each class, shape (D + 1, GPUs + 1, ..)."""
        return self.tables[self.rank]

    @cached_property
    def tables(self) -> list[Floats]:
        """`table` of each goal, over the items that are tight for the goals before it."""
        return self._solved[0]

    @property
    def least(self) -> list[float]:
        """Value of each goal that decisions are assumed to reach by the tables of later goals."""
        return self._solved[1]

    @cached_property
    def _solved(self) -> tuple[list[Floats], list[float]]:
        states = prod(self._shape)
        at_once = states * self.items.sizes.shape[0] <= self._few
        found: list[Floats] = []
        least: list[float] = []
        shape = (self.items.job.size + 1, *self._shape)
        rest = (
            _rests(self._shape, tuple(map(tuple, self.items.sizes.tolist()))) if at_once else None
        )
        tight, flat = None, np.zeros(0)
        for rank, goal in enumerate(self.goals):
            if rest is None:
                found.append(self._filled_by_size(found, least))
            else:
                if rank:
                    lost, worth = _lost(found[-1], least[-1]), self._worths[rank - 1]
                    tight = _tight_at_once(rest, flat, worth, lost, tight)
                flat = _filled_at_once(rest, self._worths[rank], tight)
                found.append(flat[:, 1:].reshape(shape))
            best, reached = float(found[-1][0].flat[-1]), goal.least
            if reached == -np.inf and best > -np.inf:
                finite = np.abs(goal.value[np.isfinite(goal.value)])
                unit = float(finite.max(initial=0.0))
                reached = best - self._loss * max(unit, abs(best))
            least.append(reached - 2.0 * ROUNDING * goal.size)
        return found, least

    def _filled_by_size(self, tables: list[Floats], least: list[float]) -> Floats:
        """Return the next goal's table, one size of a job after the other."""
        jobs, rank = self.items.job.size, len(tables)
        table = np.empty((jobs + 1, *self._shape))
        table[jobs] = 0.0
        spare = np.empty(self._shape)
        for at in range(jobs - 1, -1, -1):
            if rank:
                table[at].fill(-np.inf)
                for size, (gpus, worth) in enumerate(self._sizes[rank][at]):
                    here, behind = _slices(self._shape, gpus)
                    reached = np.add(table[at + 1][behind], worth, out=spare[here])
                    fine = self._tight(tables, least, at, size)
                    np.maximum(table[at][here], reached, out=table[at][here], where=fine)
            else:
                _step(table[at + 1], self._sizes[0][at], table[at], spare)
        return table

    def _tight(self, tables: list[Floats], least: list[float], at: int, size: int) -> Bools:
        """Return whether a size is tight for a job in each state with room for it."""
        found: Bools | None = None
        for rank, (table, reached) in enumerate(zip(tables, least, strict=False)):
            gpus, worth = self._sizes[rank][at][size]
            here, behind = _slices(self._shape, gpus)
            fine = table[at + 1][behind] + worth >= table[at][here] - _lost(table, reached)
            found = fine if found is None else found & fine
        assert found is not None
        return found

    @property
    def rounding(self) -> float:
        """Largest rounding error of a sum of values."""
        return ROUNDING * self.goals[self.rank].size

    @property
    def bound(self) -> float:
        """Upper bound on the value of any decision of the round; -inf if there is none."""
        return max(self.best, self.items.left_out)

    @property
    def best(self) -> float:
        """Upper bound on the value of decisions with these items; -inf if there is none."""
        return float(self.table[0].flat[-1]) - self._promised

    def in_reach(self, least: float) -> Bools:
        """Return which items may be in a decision worth ``least``, shape (I,).

        An item bounds such a decision by its value, plus the best of the jobs before it and of
        those after it over all divisions of the other GPUs. With higher goals, the division must
        leave all of them the values that they have to reach.
        """
        items, ranks = self.items, range(self.rank + 1)
        reached = [*self.least[: self.rank], least + self._promised - self.rounding]
        before = [np.full(self._shape, -np.inf) for _ in ranks]
        for table in before:
            table.flat[0] = 0.0
        spare = np.empty(self._shape)
        fine = np.zeros(items.value.size, dtype=bool)
        turned = tuple(slice(None, None, -1) for _ in self._shape)
        start = items.start.tolist()
        for at in range(items.job.size):
            mine = slice(start[at], start[at + 1])
            for which in np.unique(items.which[mine]).tolist():
                gpus = tuple(items.sizes[which].tolist())
                room = tuple(
                    slice(0, size - own) for size, own in zip(self._shape, gpus, strict=True)
                )
                others = [
                    before[rank][room] + self.tables[rank][at + 1][room][turned] for rank in ranks
                ]
                keeps = np.ones(others[0].shape, dtype=bool)
                for rank in ranks[:-1]:
                    worth = float(self._worths[rank][at, which])
                    keeps &= others[rank] + worth >= reached[rank]
                most = float(others[-1].max(initial=-np.inf, where=keeps))
                same = start[at] + np.flatnonzero(items.which[mine] == which)
                fine[same] = self.goals[self.rank].value[same] + most >= reached[-1]
            for rank in ranks:
                after = np.empty(self._shape)
                _step(before[rank], self._sizes[rank][at], after, spare)
                before[rank] = after
        return fine


def _lost(table: Floats, least: float) -> float:
    """Return what decisions worth ``least`` lose of a goal at most; 0 if there is none at all."""
    best = float(table[0].flat[-1])
    return best - least if best > -np.inf else 0.0


def _filled_at_once(rest: Ints, worths: Floats, tight: Bools | None) -> Floats:
    """Return a goal's table, all sizes of a job in one step, shape (D + 1, 1 + states).

    State 0, before all others, is for sizes that do not fit: worth -inf.

    Parameters
    ----------
    rest
        See `_rests`.
    worths
        Largest value of each job with each size, shape (D, S).
    tight
        Sizes that count, shape (D, S, states); None for all of them.
    """
    worth = worths[:, :, None]
    if tight is not None:
        worth = np.where(tight, worth, -np.inf)
    flat = np.zeros((worths.shape[0] + 1, 1 + rest.shape[1]))
    flat[:, 0] = -np.inf
    for at in range(worths.shape[0] - 1, -1, -1):
        behind = flat[at + 1].take(rest)
        behind += worth[at]
        np.maximum.reduce(behind, axis=0, out=flat[at, 1:])
    return flat


def _tight_at_once(
    rest: Ints, flat: Floats, worths: Floats, lost: float, before: Bools | None
) -> Bools:
    """Return which sizes are tight for a goal and all goals before, shape (D, S, states).

    Parameters
    ----------
    rest, flat, worths
        See `_filled_at_once`.
    lost
        Value of the goal that decisions may lose.
    before
        Sizes that are tight for all goals before; None if there are none.
    """
    behind = flat[1:].take(rest, axis=1)
    behind += worths[:, :, None]
    fine = behind >= flat[:-1, None, 1:] - lost
    return fine if before is None else np.logical_and(fine, before, out=fine)


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
