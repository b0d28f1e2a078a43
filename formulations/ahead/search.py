"""Plans by list schedules, improved by moving jobs in the list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np

from formulations.ahead.tasks import Outlook, PlanParams, Start, Task
from formulations.ahead.timeline import Timeline, placed
from formulations.tolerances import SAME_INSTANT_S

Cost = tuple[int, float]
"""Tasks that start after their latest start, and cost of all."""


def planned(
    outlook: Outlook,
    tasks: Sequence[Task],
    known: Sequence[Start | None],
    params: PlanParams,
) -> tuple[list[Start], Cost]:
    """Return the best plan found by list schedules and moves, and its cost.

    The lists that are tried first are those of known starts, due instants, run times and work.
    The search draws no numbers but those of a fixed seed and counts its work, so that equal
    problems have equal plans.

    Parameters
    ----------
    known
        Start of each task in an earlier plan; None for none.
    """
    best: list[int] = []
    plan: list[Start] = []
    least: Cost = (len(tasks) + 1, inf)
    for order in _orders(tasks, known):
        found, cost = scheduled(outlook, tasks, order, params.late, least)
        if cost < least:
            best, plan, least = order, found, cost
    count = len(tasks)
    if count < 2 or least == (0, 0.0):
        return plan, least
    draw = np.random.default_rng(0)
    for _ in range(min(params.moves, params.placements // count)):
        one, where = draw.integers(count, size=2).tolist()
        if one == where:
            continue
        order = best[:]
        order.insert(where, order.pop(one))
        found, cost = scheduled(outlook, tasks, order, params.late, least)
        if cost <= least:
            best, plan, least = order, found, cost
    return plan, least


def _orders(tasks: Sequence[Task], known: Sequence[Start | None]) -> Iterator[list[int]]:
    jobs = range(len(tasks))

    def known_s(at: int) -> float:
        one = known[at]
        return inf if one is None else one.start_s

    yield sorted(jobs, key=lambda at: (known_s(at), tasks[at].due_s, at))
    yield sorted(jobs, key=lambda at: (tasks[at].due_s, at))
    for size in (_work, _run_s):
        yield sorted(jobs, key=lambda at: (size(tasks[at]), at))
        yield sorted(jobs, key=lambda at: (tasks[at].due_s > 0.0, size(tasks[at]), at))


def _work(one: Task) -> float:
    return min(way.gpus * way.run_s for way in one.ways)


def _run_s(one: Task) -> float:
    return one.least_s


def scheduled(
    outlook: Outlook, tasks: Sequence[Task], order: Sequence[int], late: float, least: Cost
) -> tuple[list[Start], Cost]:
    """Return the list schedule of an order and its cost, given up once that is above ``least``.

    A task that fits at no time counts as one that starts after its latest start.
    """
    timeline = Timeline(outlook)
    plan, missed, cost = [Start(inf, 0)] * len(tasks), 0, 0.0
    for at in order:
        one = tasks[at]
        start = placed(timeline, one, late)
        if start is None:
            missed += 1
            continue
        plan[at] = start
        missed += start.start_s > one.latest_s + SAME_INSTANT_S
        cost += one.cost(start.start_s, one.ways[start.way], late)
        if (missed, cost) > least:
            break
    return plan, (missed, cost)
