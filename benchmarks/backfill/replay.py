"""Replay of a recording event by event, by its own instants or with cycles of the model."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from benchmarks.backfill.recorded import RecordedJob, Recording
from morph_opt.scheduling.backfill.book import in_order
from morph_opt.scheduling.backfill.controller import Controller
from morph_opt.scheduling.backfill.multifactor import Totals, Usage, Weights, priority
from morph_opt.scheduling.backfill.nodes import bits
from morph_opt.scheduling.backfill.queue import Free, Running, Start, Waiting
from morph_opt.scheduling.backfill.slurm import backfill_pass, main_pass
from morph_opt.scheduling.policies.slurm import Site, share_tree

GPUS_PER_NODE = 8


class Kind(IntEnum):
    """Kinds of events, in the order in which those of one instant are taken."""

    SUBMIT, END, CYCLE, PASS, FREE, PERIOD = range(6)


Event = tuple[float, Kind, int]
"""Instant, kind, and number of the job that it is of."""


@dataclass
class Replay:
    """Replay of a recording, event by event.

    Parameters
    ----------
    recording
        The recording.
    seed
        None to go by the recorded cycles; otherwise the model makes its own, and instants of
        submission and run times are shaken by up to 1 and 2 s.
    """

    recording: Recording
    seed: int | None = None
    starts_s: dict[int, float] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)
    first_priorities: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folder = self.recording.folder
        self.site = Site.read(f"{folder / 'slurm.conf'},{folder / 'assoc.txt'}")
        self.timing, self.weights = self.site.timing, self.site.weights
        names = self.site.conf.nodes
        self.totals = Totals(len(names), float(GPUS_PER_NODE * len(names)))
        self.partitions = {
            one.name: (number, one.tier, sum(1 << names.index(n) for n in one.nodes or names))
            for number, one in enumerate(self.site.conf.partitions)
        }
        self.usage = Usage(share_tree(self.site.files.shares), self.weights or Weights())
        rng = random.Random(self.seed)
        self.jobs = {one.number: replace(one) for one in self.recording.jobs}
        if self.seed is not None:
            self.timing = replace(self.timing, takes_s=rng.random())
            for one in self.jobs.values():
                one.submit_s += rng.uniform(-1.0, 1.0)
                shaken_s = one.run_s + rng.uniform(-2.0, 2.0)
                one.run_s = shaken_s if one.run_s < one.limit_s else one.run_s
        first_s = min(one.submit_s for one in self.jobs.values())
        self.controller = Controller(self.timing, first_s - 30.0 * rng.random() - 30.0)
        self.free = np.full((len(names), 1), float(GPUS_PER_NODE))
        self.waiting: dict[int, RecordedJob] = {}
        self.running: dict[int, Running] = {}
        self.ending: dict[int, tuple[float, Running]] = {}
        self.known: dict[int, int] = {}
        self.computed_s = self.recording.anchor_s or first_s
        self.last_pass_s = -math.inf

    def run(self) -> None:
        """Replay all events."""
        events: list[Event] = [
            (one.submit_s, Kind.SUBMIT, one.number) for one in self.jobs.values()
        ]
        own = self.seed is not None
        if not own:
            events += [(at_s, Kind.CYCLE, 0) for at_s in self.recording.cycles_s]
            events += [(at_s, Kind.PASS, 0) for at_s in self.recording.passes_s]
        if self.weights is not None:
            events += [
                (self.computed_s + k * self.weights.period_s, Kind.PERIOD, 0) for k in range(1, 200)
            ]
        heapq.heapify(events)
        left, now_s = len(self.jobs), events[0][0]
        while left:
            due_s = self.controller.next_s(now_s) if own else math.inf
            if due_s < (events[0][0] if events else math.inf):
                heapq.heappush(events, (due_s, Kind.CYCLE, 0))
            if not events:
                break
            now_s, kind, number = heapq.heappop(events)
            fresh = []
            if kind is Kind.PERIOD:
                self._compute(now_s)
            elif kind is Kind.SUBMIT:
                self.waiting[number] = self.jobs[number]
                self.known[number] = self.first_priorities[number] = self._priority(number, now_s)
                fresh = [number]
            elif kind is Kind.END:
                over, known_s = self.running.pop(number), self.jobs[number].completing_s
                free_s = now_s + (self.timing.completing_s if known_s is None or own else known_s)
                self.ending[number] = free_s, over
                self.controller.ended(now_s, over.nodes)
                self._charge(number, now_s)
                heapq.heappush(events, (free_s, Kind.FREE, number))
            elif kind is Kind.FREE:
                _, over = self.ending.pop(number)
                self.free[list(bits(over.nodes))] += over.demand
            started = self._own(now_s, fresh) if own else self._recorded(now_s, kind, fresh, events)
            for each in started:
                one = self.waiting.pop(each.job)
                self.starts_s[each.job], self.held[each.job] = now_s, each.nodes
                gpus = (float(one.gpus_per_node),)
                self.free[list(bits(each.nodes))] -= gpus
                end_s = math.floor(now_s) + one.limit_s
                self.running[each.job] = Running(each.job, end_s, each.nodes, gpus)
                end_s = now_s + one.run_s if own else one.end_of(now_s)
                heapq.heappush(events, (max(end_s, now_s), Kind.END, each.job))
                left -= 1

    def _own(self, now_s: float, fresh: list[int]) -> list[Start]:
        """Return what the model's own passes start."""
        free = self._free(now_s)
        arrived = bool(fresh)
        return self.controller.starts(
            now_s, self._queue(), free, self._held(now_s), arrived=arrived
        )

    def _recorded(
        self, now_s: float, kind: Kind, fresh: list[int], events: list[Event]
    ) -> list[Start]:
        """Return what passes at the recorded instants start."""
        free, queue = self._free(now_s), self._queue()
        if kind is Kind.CYCLE:
            return backfill_pass(math.floor(now_s), queue, free, self._held(now_s))[0]
        if self.recording.passes_s:
            passes = kind is Kind.PASS
            return main_pass(now_s, queue[: self.timing.depth], free) if passes else []
        if kind is Kind.SUBMIT:
            one = next(each for each in queue if each.job == fresh[0])
            ahead = any(
                (each.tier, each.priority) > (one.tier, one.priority) and each.allowed & one.allowed
                for each in queue
            )
            started = [] if ahead else main_pass(now_s, [one], free)
            if not started:
                due_s = max(now_s, self.last_pass_s + self.timing.delay_s)
                heapq.heappush(events, (due_s, Kind.PASS, 0))
            return started
        if kind in (Kind.PASS, Kind.FREE):
            self.last_pass_s = now_s
            return main_pass(now_s, queue[: self.timing.depth], free)
        return []

    def _free(self, now_s: float) -> Free:
        completing = 0
        for free_s, one in self.ending.values():
            completing |= one.nodes if free_s > now_s else 0
        return Free(self.free, completing=completing)

    def _held(self, now_s: float) -> list[Running]:
        ending = [replace(one, end_s=now_s) for _, one in self.ending.values()]
        return [*self.running.values(), *ending]

    def _queue(self) -> list[Waiting]:
        found = []
        for one in self.waiting.values():
            number, tier, nodes = self.partitions[one.partition]
            ranked = float(self.known[one.number]) if self.weights else -float(one.number)
            gpus = (float(one.gpus_per_node),)
            found.append(
                Waiting(one.number, one.nodes, gpus, one.limit_s, nodes, number, tier, ranked)
            )
        return in_order(found)

    def _priority(self, number: int, now_s: float) -> int:
        one = self.jobs[number]
        if self.weights is None:
            return 0
        return priority(
            self.weights,
            self.totals,
            age_s=max(0.0, math.floor(now_s) - math.floor(one.submit_s)),
            fair_share=self.usage.factor[one.user],
            nodes=one.nodes,
            cpus=float(one.nodes * one.gpus_per_node),
        ).total

    def _compute(self, now_s: float) -> None:
        used = [
            (self.jobs[n].user, float(one.demand[0] * one.nodes.bit_count()),
             now_s - max(self.computed_s, self.starts_s[n]))
            for n, one in self.running.items()
        ]  # fmt: skip
        self.usage.recompute(now_s - self.computed_s, used)
        self.computed_s = now_s
        self.controller.changed(now_s)
        for number in self.waiting:
            self.known[number] = self._priority(number, now_s)

    def _charge(self, number: int, now_s: float) -> None:
        one, begun_s = self.jobs[number], max(self.computed_s, self.starts_s[number])
        self.usage.add(one.user, float(one.nodes * one.gpus_per_node), now_s - begun_s)
