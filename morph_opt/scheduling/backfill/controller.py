"""Passes of slurmctld over its queue: at submissions, at ends, and at regular intervals.

Source: Slurm 22.05, ``job_allocate`` and ``schedule`` of slurmctld, ``backfill_agent`` of
``sched/backfill``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from morph_opt.scheduling.backfill.queue import Free, Planned, Running, Start, Waiting
from morph_opt.scheduling.backfill.slurm import CYCLE, Cycle, backfill_pass, main_pass


@dataclass(frozen=True, slots=True)
class Timing:
    """Intervals and depths of the passes; ``SchedulerParameters`` has the names in brackets.

    Parameters
    ----------
    backfill
        Whether ``sched/backfill`` runs; False for ``sched/builtin``.
    interval_s
        Seconds from the end of a cycle of backfill to the next (``bf_interval``).
    takes_s
        Seconds that a cycle takes.
    cycle
        Window and resolution of a cycle.
    tested
        Waiting jobs that a cycle looks at (``bf_max_job_test``).
    every_s
        Seconds between two passes over the whole queue (``sched_interval``).
    delay_s
        Least seconds from any pass to one caused by a submission or an end (``batch_sched_delay``).
    depth
        Waiting jobs that a pass caused by an event looks at (``default_queue_depth``).
    completing_s
        Seconds from the end of a job to free GPUs: its epilog. Measured, no setting of Slurm.
    tick_s
        Seconds between two looks of slurmctld's loop for a pass that is due; 0 for a pass at once.
    poll_s
        Seconds between two looks of an idle backfill for something to do.
    """

    backfill: bool = True
    interval_s: float = 30.0
    takes_s: float = 0.0
    cycle: Cycle = CYCLE
    tested: int = 500
    every_s: float = 60.0
    delay_s: float = 3.0
    depth: int = 100
    completing_s: float = 0.2
    tick_s: float = 1.0
    poll_s: float = 1.0

    @property
    def between_s(self) -> float:
        """Seconds from the begin of a cycle of backfill to the begin of the next."""
        return self.interval_s + self.takes_s


@dataclass(slots=True)
class Controller:
    """Passes of one slurmctld over its queue, from instant to instant.

    Parameters
    ----------
    timing
        See the class.
    phase_s
        Instant of the first pass over the whole queue and of the first look of backfill.
    """

    timing: Timing
    phase_s: float = 0.0
    _event_s: float = math.inf
    _last_event_s: float = -math.inf
    _whole_s: float = field(init=False)
    _cycle_s: float = field(init=False)
    _changed_s: float = math.inf
    _busy: bool = False
    _deep: bool = False
    _completing: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._whole_s = self._cycle_s = self.phase_s

    def ended(self, now_s: float, nodes: int) -> None:
        """Note the end of a job; its nodes take no job until its epilog is over."""
        self._completing.append((now_s + self.timing.completing_s, nodes))
        self.changed(now_s)

    def _due(self, now_s: float) -> None:
        """Note that a pass is due: at the next look of the loop, and not too soon after another."""
        due_s = max(now_s, self._last_event_s + self.timing.delay_s)
        if self.timing.tick_s:
            due_s = _after(self.phase_s, self.timing.tick_s, due_s, inclusive=True)
        self._event_s = min(self._event_s, due_s)

    def changed(self, now_s: float) -> None:
        """Note any other change that a cycle of backfill should look at: priorities, nodes."""
        self._changed_s = min(self._changed_s, now_s)

    def completing(self, now_s: float) -> int:
        """Return the nodes with a job whose epilog is not over, as bits."""
        nodes = 0
        for free_s, held in self._completing:
            nodes |= held if free_s > now_s else 0
        return nodes

    def next_s(self, now_s: float) -> float:
        """Return the next instant after ``now_s`` at which a pass is due or an epilog ends."""
        free_s = min((one[0] for one in self._completing), default=math.inf)
        whole_s = self._whole_s if self._deep else math.inf
        instants = (self._event_s, whole_s, free_s, self._next_cycle(), math.inf)
        return min(each for each in instants if each > now_s)

    @property
    def cycle_s(self) -> float:
        """Instant of the next cycle of backfill that could start a job; infinite without one."""
        return self._next_cycle()

    def starts(
        self,
        now_s: float,
        queue: Sequence[Waiting],
        free: Free,
        running: Iterable[Running],
        *,
        arrived: bool = False,
    ) -> list[Start]:
        """Return the jobs that start at an instant; ``free`` is changed by them.

        Parameters
        ----------
        now_s
            The instant.
        queue
            Waiting jobs in order of priority.
        free, running
            See the classes. Jobs whose epilog is not over still hold their resources.
        arrived
            Whether jobs of the queue were submitted since the instant before.
        """
        timing = self.timing
        begins = self._last_event_s == -math.inf  # nothing was looked at before: all is now
        if self._whole_s < now_s:  # as were passes that no event came before
            self._whole_s = _after(self._whole_s, timing.every_s, now_s, inclusive=True)
        if self._busy:  # cycles that could change nothing were left out, and took their time
            self._cycle_s = _after(self._cycle_s, timing.between_s, now_s, inclusive=True)
        while not self._busy and self._next_cycle() < now_s:  # as did those of an empty queue
            over_s = self._next_cycle()
            later = (free_s for free_s, _ in self._completing if free_s > over_s)
            self._cycle_s, self._changed_s = over_s + timing.between_s, min(later, default=math.inf)
        by_job: dict[int, list[Waiting]] = {}
        for one in queue:
            by_job.setdefault(one.job, []).append(one)
        started: list[Start] = []
        if arrived:
            self._due(now_s)
            self.changed(now_s)
        left = _without(queue, started)
        completing = [one for one in self._completing if one[0] > now_s]
        if len(completing) < len(self._completing):
            self._due(now_s)
            self._completing = completing
        if begins or now_s >= min(self._event_s, self._whole_s):
            depth = None if begins or now_s >= self._whole_s else timing.depth
            started += main_pass(now_s, left[:depth], free)
            left = _without(left, started)
            self._last_event_s, self._event_s = now_s, math.inf
            self._whole_s = _after(self._whole_s, timing.every_s, now_s)
        if now_s >= self._next_cycle() or (begins and timing.backfill):
            held = [_run(by_job[each.job][0], each.nodes, now_s) for each in started]
            found, planned = backfill_pass(
                now_s, left[: timing.tested], free, [*running, *held], timing.cycle
            )
            started += found
            self._cycle_s = now_s + timing.between_s
            ahead = [free_s for free_s, _ in completing]
            busy = 0
            for each in (*running, *held):
                busy |= each.nodes
            # Idle nodes that are planned for a job, and passes over several jobs, touch what
            # backfill looks at (`_more_work`): a cycle follows at the interval. Else it polls.
            idle = any(plan.nodes & ~busy for plan in planned)
            self._busy = idle or len(by_job) - len(started) > 1
            if self._busy:
                ahead += _meetings(now_s, left, planned, timing.cycle)
            self._changed_s = now_s if found else min(ahead, default=math.inf)
        elif started:
            self._changed_s = min(self._changed_s, now_s)
        self._deep = len(left) > timing.depth
        return started

    def _next_cycle(self) -> float:
        """Return the instant of the next cycle that could start a job; infinite if none could."""
        if not self.timing.backfill or self._changed_s == math.inf:
            return math.inf
        step_s = self.timing.between_s if self._busy else self.timing.poll_s
        return _after(self._cycle_s, step_s, self._changed_s, inclusive=True)


def _meetings(
    now_s: float, queue: Iterable[Waiting], planned: Iterable[Planned], cycle: Cycle
) -> list[float]:
    """Return the next instants at which a cycle differs although nothing has changed.

    The time from then until some job's limit begins or ceases to meet a reservation.
    """
    limit_s = {one.job: one.limit_s for one in queue}
    limits = sorted({0.0, *limit_s.values()})
    found: list[float] = []
    for each in planned:
        for bound in cycle.rounded(each.start_s, limit_s[each.job]):
            past = bisect_left(limits, True, key=partial(_is_past, bound, now_s))
            found += [bound - limits[past - 1]] if past else []
    return found


def _is_past(bound_s: float, now_s: float, limit_s: float) -> bool:
    return bound_s - limit_s <= now_s


def _without(queue: Sequence[Waiting], started: Iterable[Start]) -> Sequence[Waiting]:
    gone = {each.job for each in started}
    return [one for one in queue if one.job not in gone] if gone else queue


def _run(one: Waiting, nodes: int, now_s: float) -> Running:
    return Running(one.job, now_s + one.limit_s, nodes, one.demand)


def _after(begin_s: float, step_s: float, instant_s: float, *, inclusive: bool = False) -> float:
    """Return the first of ``begin_s + k step_s``, k >= 0, after (or at) an instant."""
    if instant_s < begin_s:
        return begin_s
    steps = (instant_s - begin_s) / step_s
    return begin_s + (math.ceil(steps) if inclusive else math.floor(steps) + 1) * step_s
