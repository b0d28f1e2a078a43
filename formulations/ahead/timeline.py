"""Free GPUs over time, and the list schedule: each job as soon as it fits, in a given order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

from formulations.ahead.tasks import Outlook, Plan, Start, Task, Way
from formulations.tolerances import FEASIBILITY, SAME_INSTANT_S


class Timeline:
    """Free GPUs of each class from now on, piecewise constant; changed by `take`.

    Parameters
    ----------
    outlook
        Free GPUs before any start.
    """

    def __init__(self, outlook: Outlook) -> None:
        self.begin_s: list[float] = outlook.begin_s.tolist()
        self.free: list[list[float]] = outlook.free.T.tolist()

    def copy(self) -> Timeline:
        """Return a timeline that changes by itself."""
        made = object.__new__(Timeline)
        made.begin_s, made.free = self.begin_s[:], [row[:] for row in self.free]
        return made

    def earliest(self, way: Way, after_s: float) -> float:
        """Return the earliest start from which the GPUs stay free until the end; inf for none.

        Only begins of intervals and ``after_s`` need a try: within an interval, and over those that
        follow, an earlier start is never worse.
        """
        begin_s, run_s = self.begin_s, way.run_s - SAME_INSTANT_S
        last = len(begin_s) - 1
        first = max(0, bisect_right(begin_s, after_s) - 1)
        start_s = max(begin_s[first], after_s)
        rows = [(self.free[kind], gpus - FEASIBILITY) for kind, gpus in way.need]
        for k in range(first, last + 1):
            if begin_s[k] >= start_s + run_s:
                break
            for row, gpus in rows:
                if row[k] < gpus:
                    start_s = begin_s[k + 1] if k < last else inf
                    break
        return start_s

    def take(self, way: Way, start_s: float) -> None:
        """Take the GPUs of a way from its start to its end."""
        first, last = self._cut(start_s), self._cut(start_s + way.run_s)
        for kind, gpus in way.need:
            row = self.free[kind]
            for k in range(first, last):
                row[k] -= gpus

    def _cut(self, instant_s: float) -> int:
        """Let an interval begin at an instant, and return its number."""
        begin_s = self.begin_s
        k = bisect_left(begin_s, instant_s - SAME_INSTANT_S)
        if k == len(begin_s) or begin_s[k] > instant_s + SAME_INSTANT_S:
            begin_s.insert(k, instant_s)
            for row in self.free:
                row.insert(k, row[k - 1])
        return k


def placed(timeline: Timeline, one: Task, late: float) -> Start | None:
    """Take the GPUs of a task at its cheapest early start, and return it; None for none."""
    best, least = None, inf
    for number, way in enumerate(one.ways):
        start_s = timeline.earliest(way, one.after_s)
        cost = one.cost(start_s, way, late) if start_s < inf else inf
        if cost < least:
            best, least = Start(start_s, number), cost
    if best is not None:
        timeline.take(one.ways[best.way], best.start_s)
    return best


def compacted(outlook: Outlook, tasks: Sequence[Task], plan: Plan) -> list[Start]:
    """Return a feasible plan again, in which no start is later and none can be earlier alone.

    Tasks are placed in the order of their starts, in their ways. What is placed by then holds
    its GPUs no longer than before, so that each task fits where it was.
    """
    timeline, found = Timeline(outlook), list(plan)
    for at in sorted(range(len(tasks)), key=lambda at: (plan[at].start_s, at)):
        way = tasks[at].ways[plan[at].way]
        start_s = timeline.earliest(way, tasks[at].after_s)
        found[at] = Start(start_s, plan[at].way)
        if start_s < inf:
            timeline.take(way, start_s)
    return found
