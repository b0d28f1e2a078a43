"""Pollux' fitness of an allocation, its repair, and its search over GPUs by job and node.

Source: the publication (OSDI'21) and petuum/adaptdl, branch ``osdi21-artifact``. A *state* holds
the GPUs of each job on each node, shape (J, N); many states at once are (P, J, N).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.tolerances import ROUNDING
from morph_opt.scheduling.policies.published import POLLUX

Snap = Callable[[Ints], Ints]
"""Function that cuts rows of states down to shapes that a job can run in."""


@dataclass(frozen=True, slots=True)
class PolluxRound:
    """Input of one round of the rule.

    Parameters
    ----------
    relative
        Goodput by (job, nodes, GPUs), relative to a fair share on one node; 0 where a job cannot
        run. Shape (J, N + 1, G + 1).
    current
        Present state, shape (J, N).
    capacity
        GPUs of each node, shape (N,).
    most
        Largest number of GPUs of each job, shape (J,).
    kept
        Factor of the goodput of a changed row, shape (J,).
    """

    relative: Floats
    current: Ints
    capacity: Ints
    most: Ints
    kept: Floats

    @property
    def jobs(self) -> int:
        """Number of jobs J."""
        return int(self.most.size)

    def values(self, states: Ints) -> Floats:
        """Return the relative goodput of every job, shape (P, J)."""
        gpus = states.sum(axis=2)
        nodes = (states > 0).sum(axis=2)
        job = np.arange(self.jobs)[None, :]
        found: Floats = self.relative[job, nodes, np.minimum(gpus, self.relative.shape[2] - 1)]
        return found

    def fitness(self, states: Ints) -> Floats:
        """Return the harmonic mean of the values per GPU of a node, changes priced, shape (P,)."""
        same = (states == self.current[None]).all(axis=2)
        v = self.values(states) * np.where(same, 1.0, self.kept[None, :])
        found: Floats = 1.0 / (1.0 / (v / float(self.capacity.max()) + POLLUX.least)).mean(axis=1)
        return found

    def utility(self, states: Ints) -> Floats:
        """Return values per GPU weighted by the job's share of the GPUs in use, shape (P,)."""
        used = (states.sum(axis=1) > 0) @ self.capacity
        found: Floats = self.values(states).sum(axis=1) / np.maximum(used, 1)
        return found

    @staticmethod
    def clashing(wide: Bools) -> Bools:
        """Return the jobs spread over nodes that must leave a node: all but the first on it."""
        return (wide.cumsum(axis=1) > 1) & wide

    def repaired(self, states: Ints, draw: np.random.Generator) -> Ints:
        """Return the states cut to the limits."""
        found = states.copy()
        held = found > 0
        found[self.clashing((held.sum(axis=2) > 1)[:, :, None] & held)] = 0
        order = draw.permuted(np.tile(np.arange(self.capacity.size), (*found.shape[:2], 1)), axis=2)
        mixed = np.take_along_axis(found, order, axis=2)
        mixed = _within(mixed, self.most[None, :, None], axis=2)
        nth = (mixed > 0).cumsum(axis=2)
        mixed[nth > POLLUX.most_nodes] = 0
        np.put_along_axis(found, order, mixed, axis=2)
        return _within(found, self.capacity[None, None, :], axis=1)


def _within(values: Ints, limit: Ints, axis: int) -> Ints:
    """Return values cut so that sums along an axis stay within a limit; earlier ones come first."""
    before = values.cumsum(axis=axis) - values
    found: Ints = np.clip(limit - before, 0, values)
    return found


@dataclass(frozen=True, slots=True)
class Budget:
    """Length of the search, and its seed."""

    population: int = 100
    generations: int = 100
    seed: int = 0


class Search:
    """NSGA-II on (fitness, utility), as published: crossover over jobs, three mutations, repair.

    Parameters
    ----------
    task
        The round.
    budget
        Population, generations, seed.
    snap
        Function that makes rows possible after the published repair; None for none.
    """

    def __init__(self, task: PolluxRound, budget: Budget, snap: Snap | None = None) -> None:
        self._task = task
        self._budget = budget
        self._snap = snap
        self._draw = np.random.default_rng(budget.seed)

    def run(self) -> Ints:
        """Return the fittest state of the last population, shape (J, N)."""
        task, size = self._task, self._budget.population
        states = np.repeat(task.current[None], size, axis=0)
        states[1:] = self._mutated(states[1:])
        states = self._possible(states)
        for _ in range(self._budget.generations):
            children = self._possible(self._mutated(self._crossed(states)))
            states = self._survivors(np.concatenate([states, children]))
        best: Ints = states[int(task.fitness(states).argmax())]
        return best

    def _possible(self, states: Ints) -> Ints:
        found = self._task.repaired(states, self._draw)
        return found if self._snap is None else self._snap(found)

    def _crossed(self, states: Ints) -> Ints:
        """Return children of parents from binary tournaments, with one cut over the jobs."""
        size, jobs = len(states), self._task.jobs
        fit = self._task.fitness(states)
        one, two = self._draw.integers(size, size=(2, 2 * size))
        parents = np.where(fit[one] >= fit[two], one, two)
        cut = self._draw.integers(0, jobs + 1, size)[:, None, None]
        first = np.arange(jobs)[None, :, None] < cut
        found: Ints = np.where(first, states[parents[:size]], states[parents[size:]])
        return found

    def _mutated(self, states: Ints) -> Ints:
        """Return states with rows reset, entries lost, and one entry per node grown."""
        draw, task = self._draw, self._task
        size, jobs, nodes = states.shape
        found = states.copy()
        reset = draw.random((size, jobs, 1)) < POLLUX.reset
        found = np.where(reset, task.current[None], found)
        lossy = draw.random((size, jobs, 1)) < POLLUX.lossy
        lost = lossy & (draw.random(states.shape) < POLLUX.lost)
        found[lost] = 0
        rows = draw.integers(jobs, size=(size, nodes))
        p, n = np.ogrid[:size, :nodes]
        held = found[p, rows, n]
        room = np.maximum(task.capacity[None, :] - held, 0)
        found[p, rows, n] = held + draw.integers(0, room + 1)
        return found

    def _survivors(self, states: Ints) -> Ints:
        """Return the best fronts, the last of them cut by crowding distance; no state twice."""
        size = self._budget.population
        flat, index = np.unique(states.reshape(len(states), -1), axis=0, return_index=True)
        del flat
        states = states[np.sort(index)]
        goals = np.column_stack([self._task.fitness(states), self._task.utility(states)])
        chosen: list[int] = []
        rest = np.arange(len(states))
        while rest.size and len(chosen) < size:
            front = rest[_undominated(goals[rest])]
            if len(chosen) + front.size > size:
                front = front[np.argsort(-_crowding(goals[front]), kind="stable")]
            chosen += front[: size - len(chosen)].tolist()
            rest = rest[~np.isin(rest, front)]
        kept = states[chosen]
        while len(kept) < size:  # fewer different states than places
            kept = np.concatenate([kept, kept[: size - len(kept)]])
        return kept


def _undominated(goals: Floats) -> Bools:
    """Return which points no other dominates in the two goals, shape (n,)."""
    order = np.lexsort((-goals[:, 1], -goals[:, 0]))
    best = np.maximum.accumulate(goals[order, 1])
    ahead = np.concatenate([[-np.inf], best[:-1]])
    found = np.zeros(len(goals), dtype=bool)
    found[order] = goals[order, 1] > ahead
    return found


def _crowding(goals: Floats) -> Floats:
    """Return the distance to the front's neighbours in each goal; infinite at ends, (n,)."""
    distance = np.zeros(len(goals))
    for goal in goals.T:
        order = goal.argsort(kind="stable")
        span = max(float(goal[order[-1]] - goal[order[0]]), ROUNDING)
        distance[order[[0, -1]]] = np.inf
        if goal.size > 2:
            distance[order[1:-1]] += (goal[order[2:]] - goal[order[:-2]]) / span
    return distance
