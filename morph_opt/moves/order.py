"""Order of moves that can be carried out: no GPU is taken before it is free.

A step takes a job off its GPUs and starts it on its new ones, which are free by then, except for
those that it holds itself. Where moves wait for each other in a circle, a job is stopped in between
and started when its new GPUs are free.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from formulations.tolerances import FEASIBILITY

MOVE, STOP, START = "move", "stop", "start"
MOST_SEARCHED = 20_000
"""Largest number of states of a search for the cheapest stops in between."""

Amounts = Mapping[int, tuple[float, ...]]
"""Amounts held of each resource on some nodes."""


@dataclass(frozen=True, slots=True)
class Change:
    """Change of a job's holdings.

    Parameters
    ----------
    job
        Number of the job.
    before, after
        Holdings by node; empty for a job that waits or is stopped for good.
    cost
        Cost of a stop in between.
    """

    job: int
    before: Amounts
    after: Amounts
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """Step of an order: ``"move"``, ``"stop"`` or ``"start"`` of a job."""

    kind: str
    job: int


@dataclass
class _Nodes:
    """Free amounts on the nodes, updated step by step."""

    free: dict[int, list[float]]

    def take(self, amounts: Amounts, sign: float = -1.0) -> None:
        """Take amounts, or give them back (1)."""
        for node, each in amounts.items():
            own = self.free[node]
            for at, amount in enumerate(each):
                own[at] += sign * amount

    def fits(self, amounts: Amounts) -> bool:
        """Return whether amounts are free."""
        for node, each in amounts.items():
            for free, need in zip(self.free[node], each, strict=True):
                if need > free + FEASIBILITY * max(1.0, abs(need), abs(free)):
                    return False
        return True


def in_order(
    changes: Sequence[Change], free: Mapping[int, Sequence[float]], apart: bool = True
) -> list[Step]:
    """Return steps that carry out all changes.

    Parameters
    ----------
    changes
        Changes that fit together at the end.
    free
        Initially free amounts on every node that they name.
    apart
        Whether changes without a common node do not concern each other.
    """
    steps: list[Step] = []
    for group in _groups(changes) if apart else [list(changes)]:
        mine = {node: list(free[node]) for node in _nodes_of(group)}
        found = _greedy(group, mine)
        if any(step.kind == STOP and _by(group, step.job).after for step in found):
            found = _searched(group, mine) or found
        steps += found
    return steps


def _by(changes: Sequence[Change], job: int) -> Change:
    return next(change for change in changes if change.job == job)


def _nodes_of(changes: Iterable[Change]) -> set[int]:
    return {node for change in changes for node in (*change.before, *change.after)}


def _groups(changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Yield the changes linked by common nodes, group by group, in order of their first change."""
    owner: dict[int, int] = {}
    parent = list(range(len(changes)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    for at, change in enumerate(changes):
        for node in _nodes_of([change]):
            first = owner.setdefault(node, at)
            a, b = sorted((root(first), root(at)))
            parent[b] = a
    groups: dict[int, list[Change]] = {}
    for at, change in enumerate(changes):
        groups.setdefault(root(at), []).append(change)
    yield from groups.values()


def _kind(change: Change, stopped: bool) -> str:
    """Return the kind of the last step of a change."""
    if not change.after:
        return STOP
    return MOVE if change.before and not stopped else START


def _greedy(changes: Sequence[Change], free: Mapping[int, Sequence[float]]) -> list[Step]:
    """Return steps: whatever fits, and a stop in between of least cost where nothing does."""
    nodes = _Nodes({node: list(each) for node, each in free.items()})
    left, stopped, steps = list(changes), set[int](), list[Step]()
    # Each pass completes a change or stops a job in between, so there are at most two per change.
    while left:
        for change in left:
            held = {} if change.job in stopped else change.before
            nodes.take(held, 1.0)
            if nodes.fits(change.after):
                nodes.take(change.after)
                steps.append(Step(_kind(change, change.job in stopped), change.job))
                left.remove(change)
                break
            nodes.take(held)
        else:
            # Only jobs whose nodes another one waits for are worth stopping.
            wanted = _nodes_of(Change(c.job, {}, c.after) for c in left)
            held_up = [c for c in left if c.job not in stopped and c.before]
            useful = [c for c in held_up if wanted & set(c.before)] or held_up
            change = min(useful, key=lambda c: (c.cost, c.job))
            stopped.add(change.job)
            nodes.take(change.before, 1.0)
            steps.append(Step(STOP, change.job))
    return steps


def _searched(changes: Sequence[Change], free: Mapping[int, Sequence[float]]) -> list[Step] | None:
    """Return steps with the cheapest stops in between; None if the search is too long.

    Dijkstra's algorithm over which changes are pending (0), stopped (1) and complete (2).
    """
    start = (0,) * len(changes)
    heap: list[tuple[float, int, tuple[int, ...]]] = [(0.0, 0, start)]
    best: dict[tuple[int, ...], float] = {start: 0.0}
    came: dict[tuple[int, ...], tuple[tuple[int, ...], Step]] = {}
    seen, serial = 0, 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        if min(state, default=2) == 2:
            return _back(came, state)
        seen += 1
        if seen > MOST_SEARCHED:
            return None
        for at, status, more, step in _following(changes, state, free):
            after = (*state[:at], status, *state[at + 1 :])
            if cost + more < best.get(after, math.inf):
                best[after] = cost + more
                came[after] = state, step
                serial -= 1  # the latest state of a cost first: mostly nothing is in the way
                heapq.heappush(heap, (cost + more, serial, after))
    return None


def _following(
    changes: Sequence[Change], state: tuple[int, ...], free: Mapping[int, Sequence[float]]
) -> Iterator[tuple[int, int, float, Step]]:
    """Yield the changes that a step may concern next, with status, cost and step."""
    nodes = _Nodes({node: list(each) for node, each in free.items()})
    for change, status in zip(changes, state, strict=True):
        if status:
            nodes.take(change.before, 1.0)
        if status == 2:
            nodes.take(change.after)
    for at, change in enumerate(changes):
        if state[at] == 2:
            continue
        held = change.before if state[at] == 0 else {}
        nodes.take(held, 1.0)
        if nodes.fits(change.after):
            yield at, 2, 0.0, Step(_kind(change, state[at] == 1), change.job)
        nodes.take(held)
        if state[at] == 0 and change.before and change.after:
            yield at, 1, change.cost, Step(STOP, change.job)


def _back(
    came: Mapping[tuple[int, ...], tuple[tuple[int, ...], Step]], state: tuple[int, ...]
) -> list[Step]:
    """Return the steps that lead to a state."""
    steps: list[Step] = []
    while state in came:
        state, step = came[state]
        steps.append(step)
    return steps[::-1]
