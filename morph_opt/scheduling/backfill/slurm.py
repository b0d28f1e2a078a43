"""Passes of slurmctld over its queue: the main scheduler and ``sched/backfill``.

Source: Slurm 22.05, ``src/slurmctld/job_scheduler.c``,
``src/plugins/sched/backfill/backfill.c`` and ``src/plugins/select/cons_tres``; held against
recordings of a running slurmctld by ``benchmarks/backfill``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from morph_opt.scheduling.backfill.queue import (
    Demand,
    Free,
    Pass,
    Planned,
    Release,
    Running,
    Start,
    Waiting,
)


def main_pass(now_s: float, queue: Iterable[Waiting], free: Free) -> list[Start]:
    """Start jobs in order until the first that cannot start closes its partition.

    It closes its partition for the rest of the pass, and its partition's nodes for all others
    (``failed_parts`` and ``avail_node_bitmap`` of ``schedule``). A job that a limit of its group or
    a reservation keeps from all nodes that could ever hold it is passed over and closes nothing.
    ``free`` is changed by the starts.

    Parameters
    ----------
    now_s
        The instant.
    queue
        Waiting jobs in order, already cut to the depth of the pass.
    """
    started: list[Start] = []
    failed: set[int] = set()
    begun: set[int] = set()
    closed = 0
    for one in queue:
        if one.partition in failed or one.job in begun or free.reached(one):
            continue
        open_to = one.allowed & ~one.shut(now_s)[0] if one.barred else one.allowed
        if open_to.bit_count() < one.nodes:
            continue
        chosen = one.choose(free.fits(one.demand) & open_to & ~closed, free.amounts)
        if chosen:
            started.append(free.start(one, chosen))
            begun.add(one.job)
        else:
            failed.add(one.partition)
            closed |= one.allowed
    return started


class Plan:
    """Nodes without a reservation in each interval of the window.

    Parameters
    ----------
    begin_s, end_s
        The window.
    nodes
        All nodes, as bits.
    """

    def __init__(self, begin_s: float, end_s: float, nodes: int) -> None:
        self.begin_s = [begin_s]
        self.end_s = [end_s]
        self.free = [nodes]

    def without(
        self, start_s: float, end_s: float, allowed: int, count: int
    ) -> tuple[int, float | None]:
        """Return the allowed nodes free throughout an interval, and the next instant to try.

        That instant is the end of the first interval of the plan after ``start_s`` that is followed
        by one with nodes that this one lacks; None if there is none. Fewer nodes than ``count`` are
        not counted to the end.
        """
        begin_s, free = self.begin_s, self.free
        nodes, later, last = allowed, None, len(free) - 1
        for j in range(bisect_right(self.end_s, start_s), last + 1):
            here = nodes & free[j]
            if later is None and j < last and allowed & free[j + 1] & ~here:
                later = self.end_s[j]
            if begin_s[j] > end_s:
                break
            nodes = here
            if later is not None and nodes.bit_count() < count:
                break
        return nodes, later

    def reserve(self, nodes: int, start_s: float, end_s: float) -> bool:
        """Reserve whole nodes for an interval, cut to the window; return False if one is taken."""
        first = bisect_right(self.end_s, start_s)
        if any(nodes & ~free for free in self.free[first : bisect_left(self.begin_s, end_s)]):
            return False
        start_s = max(start_s, self.begin_s[0])
        end_s = min(end_s, self.end_s[-1])
        self._cut(start_s)
        self._cut(end_s)
        for j in range(bisect_left(self.begin_s, start_s), bisect_left(self.begin_s, end_s)):
            self.free[j] &= ~nodes
        return True

    def _cut(self, instant_s: float) -> None:
        j = bisect_left(self.begin_s, instant_s)
        if j and self.begin_s[j - 1] < instant_s < self.end_s[j - 1]:
            self.begin_s.insert(j, instant_s)
            self.end_s.insert(j - 1, instant_s)
            self.free.insert(j, self.free[j - 1])


@dataclass(frozen=True, slots=True)
class Cycle:
    """Parameters of one cycle of ``sched/backfill``, in seconds (``bf_window``, ``bf_resolution``).

    Parameters
    ----------
    window_s
        Starts beyond it get no reservation.
    resolution_s
        Reservations begin and end at multiples of it, rounded down.
    first_s
        Seconds within which ends of running jobs count as one; doubled at each step
        (``time_window`` of ``_will_run_test``).
    """

    window_s: float = 86_400.0
    resolution_s: float = 60.0
    first_s: float = 30.0

    def rounded(self, start_s: float, limit_s: float) -> tuple[float, float]:
        """Return the bounds of a reservation, rounded down and at least one resolution apart."""
        step = self.resolution_s
        begins, ends = start_s - start_s % step, start_s + limit_s
        return begins, max(ends - ends % step, begins + step)


CYCLE = Cycle()


def will_run(
    one: Waiting, usable: int, now_s: float, free: Free, release: Release, first_s: float
) -> tuple[float, int] | None:
    """Return when and where a job could start if nothing but the running jobs held nodes.

    Ends of running jobs are taken away in growing windows, and the job starts with the last end of
    the window in which it fits first (`Release.windows`).
    """
    chosen = one.choose(free.fits(one.demand) & usable, free.amounts)
    if chosen:
        return now_s, chosen
    for ended, end_s in release.windows(usable, first_s):
        fits = release.fits(one.demand, ended) & usable
        if fits.bit_count() >= one.nodes:
            return max(end_s, now_s + 1.0), one.choose(fits, release.amounts(ended))
    return None


def _usable(one: Waiting, start_s: float, plan: Plan, down: int) -> tuple[int, float | None]:
    """Return the nodes that a job may have from an instant on, and the next instant to try.

    That is the next of `Plan.without`, or the end of a reservation for others, within the window.
    """
    shut, opens_s = one.shut(start_s) if one.barred else (0, None)
    allowed = one.allowed & ~(down | shut)
    usable, later = plan.without(start_s, start_s + one.limit_s, allowed, one.nodes)
    if opens_s is not None and opens_s <= plan.end_s[-1]:
        later = opens_s if later is None else min(later, opens_s)
    return usable, later


def backfill_pass(
    now_s: float,
    queue: Sequence[Waiting],
    free: Free,
    running: Sequence[Running],
    cycle: Cycle = CYCLE,
) -> Pass:
    """Plan a start for every waiting job in order, and start those whose time has come.

    A planned job holds whole nodes from its start until its limit, and no later job of the queue
    may use them in that time. A job of several partitions is planned in each, until it starts. Jobs
    that a limit of their group keeps back are not planned. ``free`` is changed by the starts.

    Parameters
    ----------
    now_s
        The instant.
    queue
        Waiting jobs in order, already cut to the number that a cycle tests.
    free, running, cycle
        See the classes.
    """
    plan = Plan(now_s, now_s + cycle.window_s, (1 << len(free.amounts)) - 1)
    release = Release(free, running)
    # `will_run` depends on these parts of a request alone, until a job starts.
    answers: dict[tuple[int, Demand, int, bool], tuple[float, int] | None] = {}
    started: list[Start] = []
    planned: list[Planned] = []
    begun: set[int] = set()
    for one in queue:
        if one.job in begun or free.reached(one):
            continue
        start_s: float | None = now_s
        while start_s is not None:
            usable, later = _usable(one, start_s, plan, free.down)
            found = None
            if usable.bit_count() >= one.nodes:
                asked = usable, one.demand, one.nodes, one.least_loaded
                if asked not in answers:
                    answers[asked] = will_run(one, usable, now_s, free, release, cycle.first_s)
                found = answers[asked]
            if found is None:
                start_s = later
                continue
            begins, chosen = max(found[0], start_s), found[1]
            if begins <= now_s and chosen & free.completing:
                begins, later = now_s + 1.0, None
            if begins <= now_s:
                started.append(free.start(one, chosen))
                begun.add(one.job)
                running = [*running, Running(one.job, now_s + one.limit_s, chosen, one.demand)]
                release, answers = Release(free, running), {}
                break
            if later is not None and begins > later:
                start_s = later
                continue
            if one.barred and begins > start_s and one.shut(begins)[0] & chosen:
                start_s = begins
                continue
            if begins > now_s + cycle.window_s:
                break
            if plan.reserve(chosen, *cycle.rounded(begins, one.limit_s)):
                planned.append(Planned(one.job, begins, chosen))
                break
            # At the end of the window a reservation, rounded down, overlaps one that the instant
            # does not: the same instant would be tried for ever.
            start_s = begins if begins > start_s else None
    return started, planned
