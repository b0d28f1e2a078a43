"""Passes of slurmctld over its queue: the main scheduler and ``sched/backfill``.

Source: Slurm 22.05, ``src/slurmctld/job_scheduler.c``,
``src/plugins/sched/backfill/backfill.c`` and ``src/plugins/select/cons_tres``; held against
recordings of a running slurmctld by ``benchmarks/backfill``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from morph_opt.scheduling.backfill.queue import (
    Free,
    Pass,
    Planned,
    Release,
    Running,
    Start,
    Waiting,
)


def main_pass(queue: Iterable[Waiting], free: Free) -> list[Start]:
    """Start jobs in order until the first that cannot start closes its partition.

    It closes its partition for the rest of the pass, and its partition's nodes for all others
    (``failed_parts`` and ``avail_node_bitmap`` of ``schedule``). ``free`` is changed by the starts.

    Parameters
    ----------
    queue
        Waiting jobs in order, already cut to the depth of the pass.
    """
    started: list[Start] = []
    failed: set[int] = set()
    closed = 0
    for one in queue:
        if one.partition in failed:
            continue
        chosen = free.choose(free.fits(one.demand) & one.allowed & ~closed, one.nodes)
        if chosen:
            free.take(chosen, one.demand)
            started.append(Start(one.job, chosen))
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

    def without(self, start_s: float, end_s: float, allowed: int) -> tuple[int, float | None]:
        """Return the allowed nodes free throughout an interval, and the next instant to try.

        That instant is the end of the first interval of the plan after ``start_s`` that is followed
        by one with nodes that this one lacks; None if there is none.
        """
        nodes, later = allowed, None
        for j, begins in enumerate(self.begin_s):
            if self.end_s[j] <= start_s:
                continue
            if later is None and j + 1 < len(self.free):
                following = allowed & self.free[j + 1]
                if following & ~(nodes & self.free[j]):
                    later = self.end_s[j]
            if begins > end_s:
                break
            nodes &= self.free[j]
        return nodes, later

    def reserve(self, nodes: int, start_s: float, end_s: float) -> bool:
        """Reserve whole nodes for an interval, cut to the window; return False if one is taken."""
        if any(
            self.end_s[j] > start_s and self.begin_s[j] < end_s and nodes & ~free
            for j, free in enumerate(self.free)
        ):
            return False
        start_s = max(start_s, self.begin_s[0])
        end_s = min(end_s, self.end_s[-1])
        self._cut(start_s)
        self._cut(end_s)
        for j, begins in enumerate(self.begin_s):
            if start_s <= begins < end_s:
                self.free[j] &= ~nodes
        return True

    def _cut(self, instant_s: float) -> None:
        for j, begins in enumerate(self.begin_s):
            if begins < instant_s < self.end_s[j]:
                self.begin_s.insert(j + 1, instant_s)
                self.end_s.insert(j + 1, self.end_s[j])
                self.free.insert(j + 1, self.free[j])
                self.end_s[j] = instant_s
                return


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
    the window in which it fits first. A window ends where the next running job of all, on usable
    nodes or not, ends after it (``list_peek_next`` of ``_will_run_test``).
    """
    chosen = free.choose(free.fits(one.demand) & usable, one.nodes)
    if chosen:
        return now_s, chosen
    running = release.running
    width, k, base = first_s, 0, None
    while k < len(running):
        last = None
        while k < len(running):
            over = running[k]
            k += 1
            if not over.nodes & usable:
                continue
            if base is None:
                base = over.end_s - over.end_s % first_s + first_s
            last = over
            if k < len(running) and running[k].end_s > base + width:
                break
        if last is None or base is None:
            return None
        while k < len(running) and running[k].end_s > base + width:
            width *= 2.0
        chosen = free.choose(release.fits(one.demand, k) & usable, one.nodes)
        if chosen:
            return max(last.end_s, now_s + 1.0), chosen
    return None


def backfill_pass(
    now_s: float,
    queue: Sequence[Waiting],
    free: Free,
    running: Sequence[Running],
    cycle: Cycle = CYCLE,
) -> Pass:
    """Plan a start for every waiting job in order, and start those whose time has come.

    A planned job holds whole nodes from its start until its limit, and no later job of the queue
    may use them in that time. ``free`` is changed by the starts.

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
    started: list[Start] = []
    planned: list[Planned] = []
    for one in queue:
        start_s: float | None = now_s
        while start_s is not None:
            usable, later = plan.without(start_s, start_s + one.limit_s, one.allowed & ~free.down)
            found = None
            if usable.bit_count() >= one.nodes:
                found = will_run(one, usable, now_s, free, release, cycle.first_s)
            if found is None:
                start_s = later
                continue
            begins, chosen = max(found[0], start_s), found[1]
            if begins <= now_s and chosen & free.completing:
                begins, later = now_s + 1.0, None
            if begins <= now_s:
                free.take(chosen, one.demand)
                started.append(Start(one.job, chosen))
                running = [*running, Running(one.job, now_s + one.limit_s, chosen, one.demand)]
                release = Release(free, running)
                break
            if later is not None and begins > later:
                start_s = later
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
