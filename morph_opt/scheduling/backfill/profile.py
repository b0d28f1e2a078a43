"""Reservations on a profile of free resources over time: EASY and conservative backfill.

Sources: Lifka, "The ANL/IBM SP Scheduling System" (JSSPP 1995) for EASY; Mu'alem and Feitelson,
"Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2 with
Backfilling" (TPDS 2001) for both. Resources are counted on every node: a reservation holds its part
of certain nodes, because a gang needs its GPUs in groups that share a node.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from morph_opt.scheduling.backfill.nodes import bits, fitting
from morph_opt.scheduling.backfill.queue import (
    Demand,
    Free,
    Pass,
    Planned,
    Running,
    Start,
    Waiting,
)


class Profile:
    """Free resources from now on, if every running job ends at its limit.

    Piecewise constant: interval i lasts from its begin to the begin of interval i + 1, the last one
    forever.

    Parameters
    ----------
    now_s
        The instant.
    free, running
        Free resources now, and the jobs that hold the others.
    """

    def __init__(self, now_s: float, free: Free, running: Iterable[Running]) -> None:
        self._begin_s = [now_s]
        self._amounts = [np.array(free.amounts)]
        self._down, self._completing = free.down, free.completing
        for one in sorted(running, key=attrgetter("end_s")):
            # A job beyond its limit ends at once for all that is known.
            if one.end_s > self._begin_s[-1]:
                self._begin_s.append(one.end_s)
                self._amounts.append(self._amounts[-1].copy())
            self._amounts[-1][list(bits(one.nodes))] += one.demand
        self._fits: list[dict[Demand, int]] = [{} for _ in self._begin_s]

    def earliest(self, one: Waiting) -> Planned | None:
        """Return the earliest start at which nodes stay free until the job's limit.

        Only begins of intervals are tried: within an interval, and over those that follow, an
        earlier start is never worse. None if the job fits at no time.
        """
        for barred in one.barred:
            if barred.end_s > self._begin_s[0]:
                self._cut(barred.end_s)
        for i in range(len(self._begin_s)):
            found = self._at(i, one)
            if found is not None:
                return found
        return None

    def now(self, one: Waiting) -> Planned | None:
        """Return a start at once, if nodes stay free until the job's limit."""
        return self._at(0, one)

    def _at(self, i: int, one: Waiting) -> Planned | None:
        """Return a start at the begin of an interval, if nodes stay free until the limit."""
        start_s, usable = self._begin_s[i], one.allowed
        if one.barred:
            usable &= ~one.shut(start_s)[0]
        for j in range(i, bisect_left(self._begin_s, start_s + one.limit_s)):
            usable &= self._fitting(one.demand, j)
            if usable.bit_count() < one.nodes:
                return None
        chosen = one.choose(usable, self._amounts[i])
        return Planned(one.job, start_s, chosen) if chosen else None

    def holds(self, one: Waiting, planned: Planned) -> bool:
        """Return whether a reservation made earlier is still free."""
        start_s = max(planned.start_s, self._begin_s[0])
        if one.barred and one.shut(start_s)[0] & planned.nodes:
            return False
        first = bisect_right(self._begin_s, start_s) - 1
        last = bisect_left(self._begin_s, start_s + one.limit_s)
        return all(not planned.nodes & ~self._fitting(one.demand, j) for j in range(first, last))

    def reserve(self, one: Waiting, planned: Planned) -> None:
        """Take a job's demand on its nodes from its planned start until its limit."""
        self._change(one, planned, -1.0)

    def cancel(self, one: Waiting, planned: Planned) -> None:
        """Release a reservation."""
        self._change(one, planned, 1.0)

    def _change(self, one: Waiting, planned: Planned, sign: float) -> None:
        start_s = max(planned.start_s, self._begin_s[0])
        self._add(start_s, start_s + one.limit_s, planned.nodes, sign * np.array(one.demand))

    def _fitting(self, demand: Demand, i: int) -> int:
        found = self._fits[i].get(demand)
        if found is None:
            found = fitting(self._amounts[i], np.array(demand))
            self._fits[i][demand] = found
        return found & ~(self._down if i else self._down | self._completing)

    def _add(self, start_s: float, end_s: float, nodes: int, amount: np.ndarray) -> None:
        first, last = self._cut(start_s), self._cut(end_s)
        rows = list(bits(nodes))
        for i in range(first, last):
            self._amounts[i][rows] += amount
            self._fits[i] = {}

    def _cut(self, instant_s: float) -> int:
        """Let an interval begin at an instant, and return its number."""
        i = bisect_left(self._begin_s, instant_s)
        if instant_s < math.inf and (i == len(self._begin_s) or self._begin_s[i] != instant_s):
            self._begin_s.insert(i, instant_s)
            self._amounts.insert(i, self._amounts[i - 1].copy())
            self._fits.insert(i, dict(self._fits[i - 1]))
        return i


def easy_pass(
    now_s: float,
    queue: Sequence[Waiting],
    free: Free,
    running: Sequence[Running],
    depth: int = 1,
    later: Callable[[Waiting], tuple[float, ...]] | None = None,
) -> Pass:
    """Start jobs in order; later ones only where the first blocked ones are not delayed.

    Parameters
    ----------
    now_s
        The instant.
    queue
        Waiting jobs in order.
    free, running
        See the classes; ``free`` is changed by the starts.
    depth
        Number of blocked jobs that have a reservation: 1 for EASY.
    later
        Rank of the jobs after these, the smallest first; None for the order of the queue.
    """
    profile = Profile(now_s, free, running if queue else ())
    started: list[Start] = []
    planned: list[Planned] = []
    left = list(reversed(queue))
    while left:
        one = left.pop()
        found = profile.earliest(one) if len(planned) < depth else _at_once(profile, one, free)
        if found is None:
            continue
        if found.start_s <= now_s:
            started.append(free.start(one, found.nodes))
        elif len(planned) < depth:
            planned.append(found)
            if later is not None and len(planned) == depth:
                left.sort(key=later, reverse=True)
        else:
            continue
        profile.reserve(one, found)
    return started, planned


def _at_once(profile: Profile, one: Waiting, free: Free) -> Planned | None:
    """Return the start of a job that fits now, and None at little cost for one that does not."""
    if (free.fits(one.demand) & one.allowed).bit_count() < one.nodes:
        return None
    return profile.now(one)


def conservative_pass(
    now_s: float,
    queue: Sequence[Waiting],
    free: Free,
    running: Sequence[Running],
    carried: Mapping[int, Planned],
) -> Pass:
    """Plan a start for every waiting job; no plan gets later while jobs keep their limits.

    All plans made earlier are put into the profile first. Each job in order may then move to an
    earlier start that the others leave free, so that an early end is used, and no plan is ever
    replaced by a later one. A plan that is not free any more (a node failed, a job overran its
    limit) is made anew after the others.

    Parameters
    ----------
    now_s, queue, free, running
        As in `easy_pass`.
    carried
        Plans of the pass before, by job.
    """
    profile = Profile(now_s, free, running if queue else ())
    kept: dict[int, Planned] = {}
    for one in queue:
        before = carried.get(one.job)
        if before is not None and profile.holds(one, before):
            profile.reserve(one, before)
            kept[one.job] = before
    started: list[Start] = []
    planned: list[Planned] = []
    for one in queue:
        before = kept.get(one.job)
        if before is not None:
            profile.cancel(one, before)
        found = profile.earliest(one)
        if before is not None and (found is None or found.start_s >= before.start_s > now_s):
            found = before
        if found is None:
            continue
        profile.reserve(one, found)
        if found.start_s <= now_s:
            started.append(free.start(one, found.nodes))
        else:
            planned.append(found)
    return started, planned
