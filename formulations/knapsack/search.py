"""The best decision by tables: their own choice, else branch and bound over jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import le, sub

import numpy as np

from formulations.arrays import Ints
from formulations.knapsack.distinct import DistinctNodes, Gang
from formulations.knapsack.placing import placed
from formulations.knapsack.tables import Tables
from formulations.parameters import KNAPSACK
from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, Level, RoundProblem, Selection

Placed = tuple[Selection | None, bool]
"""A decision with its nodes; without one, whether there are provably none."""

Ask = Callable[[Ints], Placed]
"""What is asked for the nodes of a choice that were not found."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found.

    Parameters
    ----------
    selection, value
        The best decision, and what it is worth: None and -inf if there is none.
    bound
        No decision is worth more; -inf if there is none at all.
    nodes
        Partial choices that were looked at; 0 where the tables' own choice was placed.
    """

    selection: Selection | None
    value: float
    bound: float
    nodes: int


def best_decision(
    problem: RoundProblem,
    level: Level,
    tables: Tables,
    ask: Ask,
    most_nodes: int,
    known: Selection | None = None,
) -> Found:
    """The best decision of a round, or the best that was found and a bound.

    Parameters
    ----------
    tables
        Of the round under the level.
    ask
        Finds nodes where packing and trying do not.
    most_nodes
        Partial choices to look at, at most.
    known
        A decision that is there already.
    """
    bound, most = tables.bound, tables.best - tables.rounding
    value = -np.inf if known is None else known.value(level)
    if bound == -np.inf or value >= most:
        return Found(known, value, bound, 0)
    choice = first_choice(problem, tables)
    first = placed(problem, choice) if keeps_rules(problem, choice) else None
    if first is not None and (worth := first.value(level)) >= most:
        return Found(first, worth, bound, 0)
    if tables.items.job.size > most_nodes:
        # A choice is whole when each job had its turn: none would be.
        return Found(known, value, bound, 0)
    # That it has no nodes proves nothing of other choices that are worth as much.
    return _Search(problem, level, tables, ask, known).over(most_nodes)


def keeps_rules(problem: RoundProblem, choice: Ints) -> bool:
    """Whether a choice keeps the operator's rules, wherever its nodes are."""
    return broken_rule(problem, Selection(choice, ((),) * choice.size)) is None


def first_choice(problem: RoundProblem, tables: Tables) -> Ints:
    """The choice that the tables are worth, shape (J,): of each job the first item that may be."""
    items, after = tables.items, tables.after
    step, option, value = tables.step, items.option.tolist(), items.value.tolist()
    sizes, which, start = items.sizes.tolist(), items.which.tolist(), items.start.tolist()
    left, place = list(items.capacity), len(after[0]) - 1
    choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
    for at, job in enumerate(items.job.tolist()):
        wanted, rest = after[at][place] - tables.rounding, after[at + 1]
        for item in range(start[at], start[at + 1]):
            gpus = sizes[which[item]]
            if all(map(le, gpus, left)) and value[item] + rest[place - step[item]] >= wanted:
                choice[job] = option[item]
                place -= step[item]
                left = list(map(sub, left, gpus))
                break
    return choice


@dataclass(frozen=True, slots=True)
class _Taken:
    """An item that was taken, what it holds in place, and what was before."""

    item: int
    holds: list[tuple[int, int]]
    worth: float
    left: tuple[int, ...]
    gangs: list[tuple[Gang, ...]]


class _Search:
    """A partial choice, and the items not yet tried of each job in it."""

    def __init__(
        self,
        problem: RoundProblem,
        level: Level,
        tables: Tables,
        ask: Ask,
        known: Selection | None,
    ) -> None:
        self._problem, self._level, self._tables, self._ask = problem, level, tables, ask
        self._best, self._value = known, -np.inf if known is None else known.value(level)
        self._unplaced = -np.inf
        items, nodes = tables.items, problem.nodes
        self._start: list[int] = items.start.tolist()
        self._option: list[int] = items.option.tolist()
        self._worths: list[float] = items.value.tolist()
        self._gpus = [tuple(own) for own in items.gpus.tolist()]
        self._same, self._grain = tables.rounding, KNAPSACK.grain * tables.rounding or 1.0
        size = np.where(nodes.open, nodes.capacity[nodes.node_class, 0], 0.0)
        self._free: list[int] = np.rint(size).astype(int).tolist()
        self._class: list[int] = nodes.node_class.tolist()
        self._nodes: list[list[int]] = [
            np.flatnonzero(nodes.open & (nodes.node_class == t)).tolist()
            for t in range(nodes.classes)
        ]
        self._holds = _holds(problem)
        self._parts: dict[int, list[tuple[int, Gang]]] = {}
        self._distinct = DistinctNodes()
        self._taken: list[_Taken] = []
        self._gangs: list[tuple[Gang, ...]] = [()] * nodes.classes
        self._left = items.capacity
        self._at, self._worth = len(tables.after[0]) - 1, -items.promised

    def over(self, most_nodes: int) -> Found:
        """The best decision; the bound is what nothing that was left out exceeds."""
        seen, jobs = 0, len(self._start) - 1
        untried = [self._ranked()]
        while untried and seen < most_nodes:
            if not untried[-1]:
                untried.pop()
                if self._taken:
                    self._undo()
                continue
            _, order, bound = untried[-1].pop()
            if bound <= self._value + self._same:
                continue
            seen += 1
            if not self._takes(-order):
                self._undo()
            elif len(self._taken) == jobs:
                self._leaf()
                self._undo()
            else:
                untried.append(self._ranked())
        left_out = max((bound for ranked in untried for _, _, bound in ranked), default=-np.inf)
        bound = max(self._value, self._unplaced, left_out, self._tables.items.left_out)
        return Found(self._best, self._value, bound, seen)

    def _ranked(self) -> list[tuple[int, int, float]]:
        """Items of the next job that may be better, the best one last; ties as stated."""
        place, step, worths = len(self._taken), self._tables.step, self._worths
        rest, at, worth, left = self._tables.after[place + 1], self._at, self._worth, self._left
        least, grain = self._value + self._same, self._grain
        found = []
        for item in range(self._start[place], self._start[place + 1]):
            if all(map(le, self._gpus[item], left)):
                bound = worth + worths[item] + rest[at - step[item]]
                if bound > least:
                    found.append((round(bound / grain), -item, bound))
        found.sort()
        return found

    def _takes(self, item: int) -> bool:
        """Take an item; whether there may be nodes for all that is taken."""
        option = self._option[item]
        holds, parts = self._holds.get(option, []), self._parts_of(option)
        self._taken.append(_Taken(item, holds, self._worth, self._left, self._gangs))
        self._worth += self._worths[item]
        self._at -= self._tables.step[item]
        self._left = tuple(map(sub, self._left, self._gpus[item]))
        touched = {t for t, _ in parts}
        if parts:
            self._gangs = list(self._gangs)
            for t, gang in parts:
                self._gangs[t] = tuple(sorted((*self._gangs[t], gang), reverse=True))
        clash = False
        for node, gpus in holds:
            self._free[node] -= gpus
            clash |= self._free[node] < 0
            touched.add(self._class[node])
        return not clash and all(self._fit(t) for t in touched if self._gangs[t])

    def _parts_of(self, option: int) -> list[tuple[int, Gang]]:
        """Class and parts of what starts on nodes of its own."""
        if option not in self._parts:
            starts = self._problem.options.starts
            found: dict[int, list[int]] = {}
            if NONE < option < starts.count and not starts.loose[option]:
                classes = starts.classes_of(option).tolist()
                for part, t in zip(starts.parts(option), classes, strict=True):
                    found.setdefault(t, []).append(part)
            gangs = [(t, tuple(sorted(own, reverse=True))) for t, own in found.items()]
            self._parts[option] = gangs
        return self._parts[option]

    def _fit(self, t: int) -> bool:
        free = tuple(sorted(map(self._free.__getitem__, self._nodes[t])))
        return self._distinct.possible(free, self._gangs[t])

    def _undo(self) -> None:
        last = self._taken.pop()
        self._worth, self._left, self._gangs = last.worth, last.left, last.gangs
        self._at += self._tables.step[last.item]
        for node, gpus in last.holds:
            self._free[node] += gpus

    def _leaf(self) -> None:
        """Nodes for a whole choice."""
        choice = np.full(self._problem.jobs.count, NONE, dtype=np.int64)
        choice[self._tables.items.job] = [self._option[taken.item] for taken in self._taken]
        if not keeps_rules(self._problem, choice):
            return
        found, impossible = placed(self._problem, choice), False
        if found is None:
            found, impossible = self._ask(choice)
        if found is None:
            if not impossible:
                self._unplaced = max(self._unplaced, self._worth)
            return
        value = found.value(self._level)
        if self._best is None or value > self._value:
            self._best, self._value = found, value


def _holds(problem: RoundProblem) -> dict[int, list[tuple[int, int]]]:
    """Open nodes and GPUs of the options in place."""
    held, found = problem.options.held, dict[int, list[tuple[int, int]]]()
    rows = np.flatnonzero(problem.nodes.open[held.node])
    columns = held.option[rows], held.node[rows], held.demand[rows, 0]
    for option, node, gpus in zip(*(own.tolist() for own in columns), strict=True):
        found.setdefault(option, []).append((node, round(gpus)))
    return found
