"""Plans by list schedules, improved by moving jobs in the list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from formulations.ahead.bundles import bundled, guided
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
    orders = [*_orders(tasks, known)]
    if len(tasks) > params.bundles:
        orders.append(_guide(outlook, tasks, params))
    return _improved(outlook, tasks, orders, params)


def _guide(outlook: Outlook, tasks: Sequence[Task], params: PlanParams) -> list[int]:
    """Return an order of tasks by a plan of bundles."""
    fewer, bundles, members = bundled(outlook, tasks, params)
    orders = _orders(bundles, [None] * len(bundles))
    plan, _ = _improved(fewer, bundles, [*orders], params)
    after_s, order = guided(tasks, members, plan, params.late)
    held = [replace(one, after_s=s) for one, s in zip(tasks, after_s, strict=True)]
    found, _ = scheduled(outlook, held, order, params.late, (len(tasks) + 1, inf))
    return sorted(range(len(tasks)), key=lambda at: (found[at].start_s, at))


def _improved(
    outlook: Outlook, tasks: Sequence[Task], orders: Sequence[list[int]], params: PlanParams
) -> tuple[list[Start], Cost]:
    """Return the plan of the best of some orders after moves of jobs in it, and its cost.

    Jobs with more work, which cost others more, are moved more often.
    """
    best: list[int] = []
    plan: list[Start] = []
    least: Cost = (len(tasks) + 1, inf)
    for order in orders:
        found, cost = scheduled(outlook, tasks, order, params.late, least)
        if cost < least:
            best, plan, least = order, found, cost
    count = len(tasks)
    if count < 2 or least == (0, 0.0):
        return plan, least
    draw = np.random.default_rng(0)
    often = np.cumsum(np.sqrt([one.work for one in tasks]))
    for _ in range(min(params.moves, params.placements // count)):
        one = min(int(np.searchsorted(often, draw.random() * often[-1])), count - 1)
        here, where = best.index(one), int(draw.integers(count))
        if here == where:
            continue
        order = best[:]
        order.insert(where, order.pop(here))
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
    for size in ([one.work for one in tasks], [one.least_s for one in tasks]):
        yield sorted(jobs, key=lambda at: (size[at], at))
        yield sorted(jobs, key=lambda at: (tasks[at].due_s > 0.0, size[at], at))


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
