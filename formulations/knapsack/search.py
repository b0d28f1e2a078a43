"""Best decision by tables: their own choice, or branch and bound over jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nextafter
from operator import add, le, sub
from typing import NamedTuple

import numpy as np

from formulations.arrays import Ints
from formulations.knapsack.distinct import DistinctNodes, Gang
from formulations.knapsack.placing import placed
from formulations.knapsack.tables import Tables
from formulations.parameters import KNAPSACK
from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.tolerances import ROUNDING

Placed = tuple[Selection | None, bool]
"""Decision with its nodes or None, and whether its lack of nodes is proven."""

Ask = Callable[[Ints], Placed]
"""Function that finds nodes for a choice if heuristics failed."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of the search.

    Parameters
    ----------
    selection, value
        Best decision and its value; None and -inf if none was found.
    bound
        Upper bound on all decisions; -inf if there is none.
    nodes
        Number of partial choices visited; 0 if the tables' own choice was placed.
    in_vain
        Number of whole choices among them without nodes.
    """

    selection: Selection | None
    value: float
    bound: float
    nodes: int
    in_vain: int = 0


def best_decision(
    problem: RoundProblem,
    level: Level,
    tables: Tables,
    ask: Ask,
    most_nodes: int,
    known: Selection | None = None,
    late: Callable[[], bool] = bool,
    most_whole: int | None = None,
) -> Found:
    """Return the best decision of a round, or the best one found, with a bound.

    Parameters
    ----------
    tables
        Tables of the round under the level.
    ask
        Function that finds nodes when packing and search do not.
    most_nodes
        Largest number of partial choices to visit.
    known
        Known decision, or None.
    late
        Function that returns whether to stop, asked before each partial choice; by default it is
        always False.
    most_whole
        Largest number of whole choices that are found to have no nodes; None: any number.
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
        # A whole choice takes one step per job, so none would be reached.
        return Found(known, value, bound, 0)
    # Other choices of the same value may have nodes.
    return _Search(problem, level, tables, ask, known).over(most_nodes, late, most_whole)


def keeps_rules(problem: RoundProblem, choice: Ints) -> bool:
    """Return whether a choice keeps the operator's rules, wherever its nodes are."""
    return broken_rule(problem, Selection(choice, ((),) * choice.size)) is None


def first_choice(problem: RoundProblem, tables: Tables) -> Ints:
    """Return the choice that attains the tables' value, shape (J,), by the rule for ties.

    Of several goals it attains the value of each, if no single items exclude that.
    """
    items, flat = tables.items, [tables.flat(rank) for rank in range(len(tables.goals))]
    step, option = tables.step, items.option.tolist()
    values = [goal.value.tolist() for goal in tables.goals]
    losses = [ROUNDING * goal.size for goal in tables.goals]
    sizes, which, start = items.sizes.tolist(), items.which.tolist(), items.start.tolist()
    (value, table, loss), *others = zip(values, flat, losses, strict=True)
    states = tables.states
    left, place = list(items.capacity), states - 1
    fits = [all(map(le, gpus, left)) for gpus in sizes]
    choice = np.full(problem.jobs.count, NONE, dtype=np.int64)
    for at, job in enumerate(items.job.tolist()):
        here = at * states + place
        least = table[here] - loss
        more = [(own, rests, rests[here] - lost) for own, rests, lost in others]
        for item in range(start[at], start[at + 1]):
            if not fits[which[item]]:
                continue
            state = place - step[item]
            after = here + states - step[item]
            if value[item] + table[after] >= least and all(
                own[item] + rests[after] >= must for own, rests, must in more
            ):
                choice[job] = option[item]
                if state != place:
                    place, left = state, list(map(sub, left, sizes[which[item]]))
                    fits = [all(map(le, gpus, left)) for gpus in sizes]
                break
    return choice


Worths = tuple[float, ...]
"""Value of each goal."""


class _Size(NamedTuple):
    """Items of one place that need the same GPUs, in a state in which they fit.

    Parameters
    ----------
    most
        Largest value among the items, by goal.
    rests
        Largest value of the places after this one on the GPUs left, by goal.
    items
        Items, ascending, each with its value by goal.
    """

    most: Worths
    rests: Worths
    items: list[tuple[int, Worths]]


class _Offers:
    """Items of each place by what they need and what they are worth.

    Parameters
    ----------
    goals
        Number of goals that count, from the first one on.

    Attributes
    ----------
    worths
        Value of each item by goal.
    """

    def __init__(self, tables: Tables, goals: int) -> None:
        items = tables.items
        self._tables, self._flat = tables, [tables.flat(rank) for rank in range(goals)]
        self._gpus, self._which = items.sizes.tolist(), items.which.tolist()
        self._start: list[int] = items.start.tolist()
        values = [goal.value.tolist() for goal in tables.goals[:goals]]
        self.worths: list[Worths] = list(zip(*values, strict=True))
        self._states = tables.states
        self._by_size: dict[int, list[tuple[int, Worths, list[tuple[int, Worths]]]]] = {}
        self._fitting: dict[tuple[int, int], list[_Size]] = {}

    def _sizes_of(self, place: int) -> list[tuple[int, Worths, list[tuple[int, Worths]]]]:
        """Return size, largest values and items of each size of a place."""
        if place not in self._by_size:
            found: dict[int, list[tuple[int, Worths]]] = {}
            for item in range(self._start[place], self._start[place + 1]):
                found.setdefault(self._which[item], []).append((item, self.worths[item]))
            self._by_size[place] = sizes = []
            for which, mine in found.items():
                most = mine[0][1]
                for _, worth in mine[1:]:
                    most = tuple(map(max, most, worth))
                sizes.append((which, most, mine))
        return self._by_size[place]

    def _sizes_at(self, place: int, state: int) -> list[_Size]:
        """Return the items of a place that fit in a state."""
        if (place, state) not in self._fitting:
            # An item that fits leads to a state of the next row, at the distance of its step.
            left, behind = self._tables.left(state), (place + 1) * self._states + state
            self._fitting[place, state] = found = []
            for which, most, items in self._sizes_of(place):
                if all(map(le, self._gpus[which], left)):
                    after = behind - self._tables.step[items[0][0]]
                    found.append(_Size(most, tuple(flat[after] for flat in self._flat), items))
        return self._fitting[place, state]

    def reaching(
        self, place: int, state: int, had: Worths, least: Sequence[float]
    ) -> list[tuple[int, float]]:
        """Return the items of a place that fit in a state and may reach every goal's least value.

        Parameters
        ----------
        had, least
            Values of the goals by the places before, and values to be reached.

        Returns
        -------
        list
            Items with their bounds of the last goal.
        """
        found = []
        for most, rests, items in self._sizes_at(place, state):
            # Rounded sums are monotone, so no item reaches what the largest values do not.
            for own, worth, rest, must in zip(had, most, rests, least, strict=True):
                if own + worth + rest < must:
                    break
            else:
                for item, worths in items:
                    bound = 0.0
                    for own, worth, rest, must in zip(had, worths, rests, least, strict=True):
                        bound = own + worth + rest
                        if bound < must:
                            break
                    else:
                        found.append((item, bound))
        return found


class _Taken(NamedTuple):
    """One item taken by the search, with the state before it."""

    item: int
    holds: list[tuple[int, int]]
    worth: Worths
    gangs: list[tuple[Gang, ...]]


class _Search:
    """State of a depth-first search: a partial choice, and untried items of each of its jobs."""

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
        # Number of whole choices without nodes.
        self._in_vain = 0
        items, nodes = tables.items, problem.nodes
        self._jobs = items.job.size
        self._option: list[int] = items.option.tolist()
        ranks = range(tables.rank + 1)
        self._offers = _Offers(tables, len(ranks))
        # Values that a decision must reach of the goals that rank higher.
        self._least = tables.least[: tables.rank]
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
        promised = 0.0 if items.goals else items.promised
        self._at, self._worth = tables.states - 1, (0.0 - promised,) + (0.0,) * tables.rank

    def over(
        self, most_nodes: int, late: Callable[[], bool], most_whole: int | None = None
    ) -> Found:
        """Search depth first over at most ``most_nodes`` partial choices, until the deadline.

        ``untried`` has the items to try of each job in the partial choice and of the next job, the
        best last. Invariant: a decision better than the best one completes an item in ``untried``,
        or was a whole choice whose nodes were neither found nor proven not to exist (`_unplaced`).
        All other choices were pruned by a proof: their bound is no better than the best value, or
        their gangs have no distinct nodes. So the bound is the largest of the best value, the
        untried bounds, `_unplaced` and the items that were left out of the tables.

        Ends: every step removes an item from ``untried`` or a job from the partial choice, and an
        item enters once per partial choice before it, of which there are finitely many.

        Example: two jobs on one GPU, worth 3 and 2. Job 0 takes its GPU (bound 3), job 1 nothing: a
        whole choice, worth 3. Job 0 without a GPU has bound 2 <= 3 and is dropped untried.
        """
        seen, jobs = 0, self._jobs
        most = np.inf if most_whole is None else most_whole
        untried = [self._ranked()]
        while untried and seen < most_nodes and self._in_vain < most and not late():
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
        return Found(self._best, self._value, bound, seen, self._in_vain)

    def _ranked(self) -> list[tuple[int, int, float]]:
        """Return the next job's items that may improve the best decision, most promising last."""
        least, grain = nextafter(self._value + self._same, np.inf), self._grain
        items = self._offers.reaching(
            len(self._taken), self._at, self._worth, [*self._least, least]
        )
        return sorted((round(bound / grain), -item, bound) for item, bound in items)

    def _takes(self, item: int) -> bool:
        """Take an item; return whether nodes may exist for everything taken so far."""
        option = self._option[item]
        holds, parts = self._holds.get(option, []), self._parts_of(option)
        self._taken.append(_Taken(item, holds, self._worth, self._gangs))
        self._worth = tuple(map(add, self._worth, self._offers.worths[item]))
        self._at -= self._tables.step[item]
        if not holds and not parts:
            return True
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
        return not clash and all(map(self._fit, touched))

    def _parts_of(self, option: int) -> list[tuple[int, Gang]]:
        """Return class and parts of an option that starts on nodes of its own."""
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
        if not self._gangs[t]:
            return True
        free = tuple(sorted(map(self._free.__getitem__, self._nodes[t])))
        return self._distinct.possible(free, self._gangs[t])

    def _undo(self) -> None:
        last = self._taken.pop()
        self._worth, self._gangs = last.worth, last.gangs
        self._at += self._tables.step[last.item]
        for node, gpus in last.holds:
            self._free[node] += gpus

    def _leaf(self) -> None:
        """Place a whole choice and keep it if it is better."""
        choice = np.full(self._problem.jobs.count, NONE, dtype=np.int64)
        choice[self._tables.items.job] = [self._option[taken.item] for taken in self._taken]
        if not keeps_rules(self._problem, choice):
            return
        found, impossible = placed(self._problem, choice), False
        if found is None:
            found, impossible = self._ask(choice)
        if found is None:
            self._in_vain += 1
            if not impossible:
                self._unplaced = max(self._unplaced, self._worth[-1])
            return
        value = found.value(self._level)
        if self._best is None or value > self._value:
            self._best, self._value = found, value


def _holds(problem: RoundProblem) -> dict[int, list[tuple[int, int]]]:
    """Return open nodes and GPUs of each option in place."""
    held, found = problem.options.held, dict[int, list[tuple[int, int]]]()
    rows = np.flatnonzero(problem.nodes.open[held.node])
    columns = held.option[rows], held.node[rows], held.demand[rows, 0]
    for option, node, gpus in zip(*(own.tolist() for own in columns), strict=True):
        found.setdefault(option, []).append((node, round(gpus)))
    return found
