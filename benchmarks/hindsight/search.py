"""Simulated annealing over plans: what is tried, and when it is taken.

A change moves a segment to before or after one that starts near it, exchanges two (with their GPU
types), gives a job another configuration, stops a job where another has become ready, moves a stop
or undoes it, or lets a segment close its nodes to others. It is taken if completion times in sum
grow by less than chance allows at a temperature that falls from step to step (Kirkpatrick et al.
1983). What is drawn depends on the number of the block alone, so a search that is stopped after a
block can be continued.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.hindsight.plan import Course, Follower, Place, Plan, Segment, Work, tidied

BLOCK = 150_000
"""Steps from hot to cold."""
HOT, COLD = 0.25, 2e-4
"""Temperatures at the first and last step of a block, over the mean completion time."""
SPANS = (3, 10, 30, 100)
"""Rounds within which a segment is moved or exchanged."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a search stands.

    Parameters
    ----------
    plan
        The best.
    mean_s
        Its mean completion time.
    blocks
        Done so far.
    """

    plan: Plan
    mean_s: float
    blocks: int


def begin(work: Work, plan: Plan) -> Found:
    """From a plan."""
    course = Follower(work).follow(plan)
    assert course is not None
    return Found(tidied(plan, course), course.total_s / len(work.ways), 0)


def block(work: Work, found: Found, steps: int = BLOCK) -> Found:
    """One annealing from the best plan so far."""
    follower, draw = Follower(work), Random(found.blocks)
    course = follower.follow(found.plan)
    assert course is not None
    now = _Point(work, found.plan, course)
    best, best_s, mean_s = now.plan, course.total_s, found.mean_s
    for step in range(steps):
        heat_s = mean_s * HOT * (COLD / HOT) ** (step / steps)
        changed = now.changed(draw)
        if changed is None:
            continue
        limit_s = now.course.total_s - heat_s * math.log(1.0 - draw.random())
        course = follower.follow(changed, limit_s)
        if course is None:
            continue
        plan = tidied(changed, course)
        if len(plan.order) < len(changed.order):
            # A segment that never ran may have closed nodes to others.
            course = follower.follow(plan)
            assert course is not None
        now = _Point(work, plan, course)
        if course.total_s < best_s - 1e-6:
            best, best_s = plan, course.total_s
    return Found(best, best_s / len(work.ways), found.blocks + 1)


class _Point:
    """A plan with its course, and what may be changed in it."""

    def __init__(self, work: Work, plan: Plan, course: Course) -> None:
        self.plan, self.course = plan, course
        self._work = work
        self._starts = [course.runs[place].start for place in plan.order]

    def changed(self, draw: Random) -> Plan | None:
        """Another plan; None if what was drawn does not exist."""
        at = draw.randrange(len(self.plan.order))
        kind = draw.random()
        if kind < 0.45:
            return self._moved(at, draw)
        if kind < 0.6:
            return self._exchanged(at, draw)
        if kind < 0.75:
            return self._otherwise(at, draw)
        if kind < 0.8:
            return self._with(at, lambda s: s._replace(blocks=not s.blocks))
        if kind < 0.86:
            return self._stopped_at_another_time(at, draw)
        return self._merged(at) if kind < 0.93 else self._split(at, draw)

    def _near(self, since: int, before: int, at: int, draw: Random) -> int | None:
        """Place in the order of another job's segment that starts within these rounds."""
        first, last = bisect_left(self._starts, since), bisect_right(self._starts, before)
        if last - first < 2:
            return None
        found = draw.randrange(first, last)
        return None if self.plan.order[found][0] == self.plan.order[at][0] else found

    def _other(self, at: int, draw: Random) -> int | None:
        """One that starts near a segment, and not before that is ready."""
        run, span = self.course.runs[self.plan.order[at]], draw.choice(SPANS)
        return self._near(max(run.ready, run.start - span), run.start + span, at, draw)

    def _moved(self, at: int, draw: Random) -> Plan | None:
        to = self._other(at, draw)
        if to is None:
            return None
        order = self.plan.order[:]
        order.insert(to, order.pop(at))
        return Plan(order, self.plan.segments)

    def _exchanged(self, at: int, draw: Random) -> Plan | None:
        """Two in each other's place, and on each other's class of nodes where they can."""
        to = self._other(at, draw)
        if to is None:
            return None
        order, segments = self.plan.order[:], self.plan.segments
        one, other = order[at], order[to]
        order[at], order[to] = other, one
        kinds = self._class(one), self._class(other)
        if kinds[0] != kinds[1]:
            segments = segments[:]
            for (job, index), kind in ((one, kinds[1]), (other, kinds[0])):
                ways = [w for w, way in enumerate(self._work.ways[job]) if way.node_class == kind]
                if ways:
                    mine = segments[job] = segments[job][:]
                    mine[index] = Segment(draw.choice(ways), *mine[index][1:3])
        return Plan(order, segments)

    def _class(self, place: Place) -> int:
        job, index = place
        return self._work.ways[job][self.plan.segments[job][index].way].node_class

    def _otherwise(self, at: int, draw: Random) -> Plan | None:
        """In another configuration, in some steps elsewhere in the order too."""
        job, index = self.plan.order[at]
        ways = len(self._work.ways[job])
        if ways == 1:
            return None
        way = (self.plan.segments[job][index].way + draw.randrange(1, ways)) % ways
        there = self._with(at, lambda s: Segment(way, s.rounds, s.blocks))
        run = self.course.runs[job, index]
        to = self._near(run.ready, run.start + 20, at, draw) if draw.random() < 0.5 else None
        if to is not None:
            order = there.order[:]
            order.insert(to, order.pop(at))
            there = Plan(order, there.segments)
        return there

    def _stopped_at_another_time(self, at: int, draw: Random) -> Plan | None:
        job, index = self.plan.order[at]
        rounds = self.plan.segments[job][index].rounds
        if not rounds:
            return None
        rounds = max(1, rounds + round(draw.gauss(0.0, 3.0)))
        return self._with(at, lambda s: s._replace(rounds=rounds))

    def _with(self, at: int, change: Callable[[Segment], Segment]) -> Plan:
        job, index = self.plan.order[at]
        segments = self.plan.segments[:]
        mine = segments[job] = segments[job][:]
        mine[index] = change(mine[index])
        return Plan(self.plan.order, segments)

    def _merged(self, at: int) -> Plan | None:
        """Without a segment: what it did the one before or behind it does."""
        job, index = self.plan.order[at]
        mine = self.plan.segments[job][:]
        if len(mine) == 1:
            return None
        if index == len(mine) - 1:
            mine[index - 1] = mine[index - 1]._replace(rounds=0)
        del mine[index]
        order = [
            (j, i - 1) if j == job and i > index else (j, i)
            for j, i in self.plan.order
            if (j, i) != (job, index)
        ]
        return Plan(order, [*self.plan.segments[:job], mine, *self.plan.segments[job + 1 :]])

    def _split(self, at: int, draw: Random) -> Plan | None:
        """Stopped when another has become ready, which comes first then; the rest comes later."""
        job, index = place = self.plan.order[at]
        segment, start = self.plan.segments[job][index], self.course.runs[place].start
        lasts = math.ceil(self._work.ways[job][segment.way].work_s / self._work.interval_s)
        to = self._near(start, start + lasts, at, draw)
        if to is None:
            return None
        other = self.plan.order[to]
        ready = self.course.runs[other].ready
        if ready <= start:
            return None
        rest = segment.way if draw.random() < 0.5 else draw.randrange(len(self._work.ways[job]))
        mine = self.plan.segments[job][:]
        mine[index : index + 1] = [
            segment._replace(rounds=ready - start),
            Segment(rest, segment.rounds, False),
        ]
        order = [
            (j, i + 1) if j == job and i > index else (j, i)
            for j, i in self.plan.order
            if (j, i) != other
        ]
        order.insert(order.index(place) + 1, other)
        later = order.index(place) + 2 + int(draw.expovariate(1.0 / 8.0))
        order.insert(later, (job, index + 1))
        return Plan(order, [*self.plan.segments[:job], mine, *self.plan.segments[job + 1 :]])
