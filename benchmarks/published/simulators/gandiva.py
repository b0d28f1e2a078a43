"""Gandiva's schedule as published in Tiresias' simulator, with everything that is wrong in it.

Source: SymbioticLab/Tiresias, ``--schedule gandiva --scheme gandiva`` (Apache-2.0); rules in our
words. Ticks of 10 s, counted from the last arrival; turns where the clock is a multiple of 60. Jobs
of one gang size share *node sets*; every job takes one lane of its set. What is wrong in it is told
on ``docs/gandiva-easyscale.md``; nothing of it is mended here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.published.simulators.tiresias import RigidJob
from morph_opt.core.domain import InputError

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 64)
"""Gang sizes that the published code has a list for; others end it."""

TICK_S, TURN_S = 10, 60


@dataclass(slots=True, eq=False)
class Member:
    """A job with the seconds that it has run."""

    job: RigidJob
    executed_s: int = 0


@dataclass(slots=True, eq=False)
class NodeSet:
    """Nodes that jobs of one gang size take in turn.

    Parameters
    ----------
    nodes
        Their number.
    lanes
        Gangs that run at once.
    load
        Sum of what jobs count for; it is never lowered when one ends.
    jobs
        In the order of their turns.
    """

    nodes: int
    lanes: int
    load: float = 0.0
    jobs: list[Member] = field(default_factory=list)

    def take(self, member: Member) -> None:
        """One more job, at the end."""
        self.load = round(self.load + 1.0, 2)
        self.jobs.append(member)


@dataclass(frozen=True, slots=True)
class GandivaRun:
    """A job's fate: when it joined a node set (not: ran), and the tick that saw its end."""

    name: str
    submit_s: int
    start_s: int
    end_s: int


def simulate(jobs: Sequence[RigidJob], nodes: int, gpus_per_node: int) -> tuple[GandivaRun, ...]:
    """Run all jobs to their end; results in the order of ``jobs``.

    Raises
    ------
    InputError
        If a gang is of a size that the published code does not know, or never fits.
    """
    for job in jobs:
        if job.gpus not in SIZES:
            known = ", ".join(map(str, SIZES))
            raise InputError(f"asks for {job.gpus} GPUs; known gangs are {known}", field=job.name)
        if job.gpus > nodes * gpus_per_node:
            raise InputError(f"asks for {job.gpus} GPUs, more than there are", field=job.name)
    simulation = _Simulation(jobs, nodes, gpus_per_node)
    simulation.run()
    return tuple(
        GandivaRun(job.name, job.submit_s, simulation.started[job.name], simulation.ended[job.name])
        for job in jobs
    )


class _Simulation:
    def __init__(self, jobs: Sequence[RigidJob], nodes: int, gpus_per_node: int) -> None:
        self.arrivals = sorted(jobs, key=lambda job: job.submit_s)
        self.nodes, self.per_node = nodes, gpus_per_node
        self.free = nodes
        self.sets: dict[int, list[NodeSet]] = {size: [] for size in SIZES}
        self.pending: list[Member] = []
        self.started: dict[str, int] = {}
        self.ended: dict[str, int] = {}

    def run(self) -> None:
        """Tick by tick."""
        now = self.arrivals[0].submit_s if self.arrivals else 0
        passed, arrived = 0, 0
        while len(self.ended) < len(self.arrivals):
            self._adjust()
            released = self._execute(now, passed)
            while arrived < len(self.arrivals) and self.arrivals[arrived].submit_s == now:
                member = Member(self.arrivals[arrived])
                arrived += 1
                if not self._join(member, now):
                    self.pending.append(member)
            if released:
                self._join_pending(now)
            later = self.arrivals[arrived].submit_s if arrived < len(self.arrivals) else math.inf
            if later is math.inf and not any(s.jobs for kind in self.sets.values() for s in kind):
                self._require_progress()
            after = int(min(now + TICK_S, later))
            passed, now = after - now, after

    def _require_progress(self) -> None:
        """Where nobody runs and nobody comes, pending jobs are looked at no more: for ever."""
        if self.pending and len(self.ended) < len(self.arrivals):
            name = self.pending[0].job.name
            raise InputError("waits for ever in the published code", field=name)

    def _join_pending(self, now: int) -> None:
        """Jobs are taken out of the list while it is walked, so that the next one is passed."""
        at = 0
        while at < len(self.pending):
            member = self.pending[at]
            if self._join(member, now):
                self.pending.remove(member)
            at += 1

    def _span(self, gang: int) -> int:
        return math.ceil(gang / self.per_node)

    def _make(self, gang: int) -> NodeSet:
        nodes = self._span(gang)
        self.free -= nodes
        return NodeSet(nodes, int(nodes * self.per_node / gang))

    def _join(self, member: Member, now: int) -> bool:
        """Into the first set, if a lane (but never the last one) is free; else a new set."""
        gang = member.job.gpus
        sets = self.sets[gang]
        if sets:
            first = sets.pop(0)
            sets.append(first)
            if round(first.load + 1.0, 2) < first.lanes:
                first.take(member)
                sets.sort(key=lambda one: one.load)
                self.started[member.job.name] = now
                return True
        if self._span(gang) <= self.free:
            made = self._make(gang)
            made.take(member)
            sets.append(made)
        elif sets:
            first = sets.pop(0)
            first.take(member)
            sets.append(first)
        else:
            return False
        sets.sort(key=lambda one: one.load)
        self.started[member.job.name] = now
        return True

    def _adjust(self) -> None:
        """Node sets by the sizes' shares of all GPUs that are asked for."""
        asked = {g: g * sum(len(one.jobs) for one in sets) for g, sets in self.sets.items()}
        held = {g: self.per_node * sum(s.nodes for s in sets) for g, sets in self.sets.items()}
        total = sum(asked.values())
        if total == 0:
            return
        for gang, sets in self.sets.items():
            if asked[gang] == 0:
                continue
            share = math.floor(asked[gang] / total * (self.nodes * self.per_node))
            missing = min(share, asked[gang]) - held[gang]
            if missing > 0:
                self._expand(gang, sets, math.ceil(missing / gang))
            elif missing < 0:
                # GPUs are counted as if they were sets.
                self._shrink(sets, math.ceil(-missing / gang))

    def _expand(self, gang: int, sets: list[NodeSet], wanted: int) -> None:
        """New sets while nodes are free; jobs are spread anew unless the last was of one node.

        In the published code the count of nodes overwrites the count of sets.
        """
        added = 0
        for count in range(1, wanted + 1):
            added = count
            if self._span(gang) <= self.free:
                sets.append(self._make(gang))
                added = self._span(gang) - 1
        if added <= 0:
            return
        members = [member for one in sets for member in one.jobs]
        for one in sets:
            if one.jobs:
                one.jobs, one.load = [], 0.0
        self._assign(sets, members)

    def _shrink(self, sets: list[NodeSet], wanted: int) -> None:
        members: list[Member] = []
        for _ in range(min(wanted, len(sets) - 1)):
            gone = sets.pop(0)
            members += gone.jobs
            self.free += gone.nodes
        self._assign(sets, members)

    def _assign(self, sets: list[NodeSet], members: Sequence[Member]) -> None:
        for member in members:
            sets[0].take(member)
            sets.sort(key=lambda one: one.load)

    def _execute(self, now: int, passed: int) -> bool:
        """The first lanes of every set run; turns, then ends; empty sets dissolve."""
        released = False
        for sets in self.sets.values():
            for one in list(sets):
                run = one.jobs[: min(len(one.jobs), one.lanes)]
                for member in run:
                    member.executed_s += passed
                over = [member for member in run if member.executed_s >= member.job.duration_s]
                if now % TURN_S == 0 and len(one.jobs) > len(run):
                    one.jobs = one.jobs[len(run) :] + run
                for member in over:
                    one.jobs.remove(member)
                    self.ended[member.job.name] = now
                if not one.jobs:
                    self.free += one.nodes
                    sets.remove(one)
                    released = True
        return released
