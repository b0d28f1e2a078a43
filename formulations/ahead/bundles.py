"""Guide to plans of many jobs: a plan of wide jobs and of bundles of like narrow ones.

A search that moves one job after the other through a list of hundreds ends before the wide jobs,
whose order matters most, are where they belong. A plan of few bundles is searched in the same time
as one of few jobs; the wide jobs then keep its starts, and the narrow ones are placed around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np

from formulations.ahead.tasks import Outlook, PlanParams, Start, Task, Way


def bundled(
    outlook: Outlook, tasks: Sequence[Task], params: PlanParams
) -> tuple[Outlook, list[Task], list[list[int]]]:
    """Return free GPUs at fewer instants, tasks of which some are bundles, and their members.

    Narrow tasks that may use the same classes are put into one bundle if they are due and last
    alike; it holds the GPUs of all for their mean run time, or fewer for longer.
    """
    most = outlook.free[-1]
    alike: dict[object, list[int]] = {}
    members: list[list[int]] = []
    for at, one in enumerate(tasks):
        share = max(n / max(most[kind], 1.0) for way in one.ways for kind, n in way.need)
        if share >= params.narrow:
            members.append([at])
            continue
        kinds = tuple(tuple(kind for kind, _ in way.need) for way in one.ways)
        alike.setdefault((kinds, one.after_s), []).append(at)
    for mine in alike.values():
        many = params.bundles * len(mine) / len(tasks)
        rows = max(1, round(sqrt(many)))
        mine.sort(key=lambda at: (tasks[at].due_s, at))
        for part in np.array_split(mine, rows):
            row = sorted(part.tolist(), key=lambda at: (tasks[at].least_s, at))
            cells = np.array_split(row, max(1, round(many / rows)))
            members += [cell.tolist() for cell in cells if cell.size]
    made = [_bundle([tasks[at] for at in mine], most, params) for mine in members]
    count = outlook.begin_s.size
    kept = np.unique(np.linspace(0, count - 1, min(count, params.bundles)).astype(np.int64))
    return Outlook(outlook.begin_s[kept], outlook.free[kept]), made, members


def _bundle(tasks: Sequence[Task], most: np.ndarray, params: PlanParams) -> Task:
    first = tasks[0]
    if len(tasks) == 1:
        return first
    ways = []
    for number, way in enumerate(first.ways):
        mine = [one.ways[number] for one in tasks]
        gpus = sum(one.gpus for one in mine)
        run_s = sum(one.gpus * one.run_s for one in mine) / gpus
        need = np.asarray([[n for _, n in one.need] for one in mine]).sum(axis=0)
        kinds = [kind for kind, _ in way.need]
        part = min(1.0, float((2.0 * params.narrow * most[kinds] / need).min()))
        ways.append(Way(tuple(zip(kinds, (part * need).tolist(), strict=True)), run_s / part))
    due_s = sum(one.due_s for one in tasks) / len(tasks)
    latest_s = max(one.latest_s for one in tasks)
    weight = sum(one.weight for one in tasks)
    return Task(tuple(ways), due_s, latest_s, first.after_s, weight)


def guided(
    tasks: Sequence[Task], members: Sequence[Sequence[int]], plan: Sequence[Start], late: float
) -> tuple[list[float], list[int]]:
    """Return the earliest start of each task, and an order, by a plan of bundles.

    A task that is no bundle starts no earlier than there, and comes first; the others follow in
    the order of work per cost of a second at the start of their bundle.
    """
    after_s = [one.after_s for one in tasks]
    keys: list[tuple[float, float]] = [(0.0, 0.0)] * len(tasks)
    for start, mine in zip(plan, members, strict=True):
        if len(mine) == 1 and start.start_s < inf:
            after_s[mine[0]] = max(after_s[mine[0]], start.start_s)
            keys[mine[0]] = -1.0, start.start_s
            continue
        for at in mine:
            one = tasks[at]
            rate = one.weight * (1.0 + late * (one.due_s < start.start_s))
            keys[at] = 0.0, one.work / rate
    return after_s, sorted(range(len(tasks)), key=lambda at: (keys[at], at))
