"""Queue, running jobs and free nodes as the passes of a scheduler see them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from formulations.arrays import Floats
from formulations.tolerances import FEASIBILITY
from morph_opt.scheduling.backfill.nodes import bits, by_load, fitting, in_runs

Demand = tuple[float, ...]


class Barred(NamedTuple):
    """Interval in which a job may not be on some nodes: a reservation for others.

    Parameters
    ----------
    begin_s, end_s
        The interval.
    nodes
        The nodes, as bits.
    why
        Name of the reservation.
    """

    begin_s: float
    end_s: float
    nodes: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Cap:
    """Limit on what the running jobs of a group hold together.

    Parameters
    ----------
    group
        Name of the limit and of the group, unique among all caps.
    most
        Most GPUs, CPUs, nodes and jobs; infinite for none.
    """

    group: str
    most: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Request of one waiting job; of one partition, if the job lists several.

    Parameters
    ----------
    job
        Its number.
    nodes
        Requested nodes.
    demand
        Demand on each of them, in the order of the columns of `Free`: GPUs first.
    limit_s
        Time limit, in seconds.
    allowed
        Nodes that may hold it, as bits.
    partition
        Number of the queue that a pass closes if this job cannot start.
    tier, priority
        Rank of the partition, and priority within one rank; the larger go first.
    least_loaded
        Whether it takes the least loaded nodes (``CR_LLN``, ``LLN``).
    barred
        Intervals in which it may not be on some nodes.
    caps, holds
        Limits of its groups; GPUs, CPUs, nodes and jobs (1) that it counts for them.
    """

    job: int
    nodes: int
    demand: Demand
    limit_s: float
    allowed: int
    partition: int = 0
    tier: int = 0
    priority: float = 0.0
    least_loaded: bool = False
    barred: tuple[Barred, ...] = ()
    caps: tuple[Cap, ...] = ()
    holds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)

    def choose(self, nodes: int, amounts: Floats) -> int:
        """Return nodes for the job out of a set, 0 if they do not suffice.

        Parameters
        ----------
        nodes
            Nodes that can take it, as bits.
        amounts
            Free amounts at that time, shape (N, R).
        """
        if self.least_loaded:
            return by_load(nodes, self.nodes, amounts)
        return in_runs(nodes, self.nodes)

    def shut(self, start_s: float) -> tuple[int, float | None]:
        """Return the nodes that it may not be on if it starts then, and the first end of that.

        The second is None if no interval is in its way.
        """
        nodes, first_s = 0, None
        for one in self.barred:
            if one.begin_s < start_s + self.limit_s and one.end_s > start_s:
                nodes |= one.nodes
                first_s = one.end_s if first_s is None else min(first_s, one.end_s)
        return nodes, first_s


@dataclass(frozen=True, slots=True)
class Running:
    """One running job: the latest end that its limit allows, and what it holds."""

    job: int
    end_s: float
    nodes: int
    demand: Demand


@dataclass(frozen=True, slots=True)
class Start:
    """Decision to start a job at once on a set of nodes."""

    job: int
    nodes: int


class Free:
    """Free resources of the nodes, shape (N, R), with the nodes that can take each demand.

    Parameters
    ----------
    amounts
        Free amounts per node and resource; changed by `take` and `give`.
    down
        Nodes that take nobody, now or later, as bits.
    completing
        Nodes that take nobody now, because a job on them is completing.
    """

    def __init__(self, amounts: Floats, down: int = 0, completing: int = 0) -> None:
        self.amounts = np.array(amounts, dtype=np.float64)
        self.down = down
        self.completing = completing
        self._held: dict[str, Floats] = {}
        self._fits: dict[Demand, int] = {}

    def fits(self, demand: Demand) -> int:
        """Return the nodes that could take the demand now."""
        if demand not in self._fits:
            self._fits[demand] = fitting(self.amounts, np.array(demand))
        return self._fits[demand] & ~(self.down | self.completing)

    def take(self, nodes: int, demand: Demand) -> None:
        """Take the demand from each node of a set."""
        self.amounts[list(bits(nodes))] -= demand
        self._fits.clear()

    def start(self, one: Waiting, nodes: int) -> Start:
        """Start a job on a set of nodes."""
        self.take(nodes, one.demand)
        self.count(one)
        return Start(one.job, nodes)

    def count(self, one: Waiting) -> None:
        """Count what a job that runs holds for the limits of its groups."""
        for cap in one.caps:
            self._held[cap.group] = self._held.get(cap.group, np.zeros(4)) + one.holds

    def reached(self, one: Waiting) -> str:
        """Return the first limit of its groups that a job would exceed; "" for none."""
        for cap in one.caps:
            held = self._held.get(cap.group, np.zeros(4)) + one.holds
            if (held > np.array(cap.most) + FEASIBILITY).any():
                return cap.group
        return ""


class Release:
    """Free nodes after the ends of the running jobs, one after the other.

    The planned jobs of a pass have few distinct demands for the same ends; each is computed once.

    Parameters
    ----------
    free
        Free resources now. Completing nodes are free as soon as anything has ended.
    running
        The running jobs.
    """

    def __init__(self, free: Free, running: Iterable[Running]) -> None:
        self.running = sorted(running, key=lambda one: (one.end_s, one.job))
        self._amounts = [np.array(free.amounts)]
        self._down = free.down
        self._fits: dict[tuple[Demand, int], int] = {}

    def windows(self, usable: int, first_s: float) -> Iterator[tuple[int, float]]:
        """Yield the windows in which ends of jobs on some nodes count as one, soonest first.

        Each is the number of jobs that are over, and the last end. A window ends where the next
        running job of all, on these nodes or not, ends after it (``list_peek_next`` of
        ``_will_run_test``); its width doubles until it meets that end.

        Parameters
        ----------
        usable
            The nodes, as bits.
        first_s
            Width of the first window.
        """
        running, width, k, base = self.running, first_s, 0, None
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
                return
            while k < len(running) and running[k].end_s > base + width:
                width *= 2.0
            yield k, last.end_s

    def amounts(self, ended: int) -> Floats:
        """Return the free amounts once the first ``ended`` jobs are over, shape (N, R)."""
        while len(self._amounts) <= ended:
            over = self.running[len(self._amounts) - 1]
            self._amounts.append(self._amounts[-1].copy())
            self._amounts[-1][list(bits(over.nodes))] += over.demand
        return self._amounts[ended]

    def fits(self, demand: Demand, ended: int) -> int:
        """Return the nodes that could take the demand once the first ``ended`` jobs are over."""
        found = self._fits.get((demand, ended))
        if found is None:
            found = fitting(self.amounts(ended), np.array(demand)) & ~self._down
            self._fits[demand, ended] = found
        return found


@dataclass(frozen=True, slots=True)
class Planned:
    """Planned start of a waiting job and the nodes reserved for it, as bits."""

    job: int
    start_s: float
    nodes: int


Pass = tuple[list[Start], list[Planned]]
"""Decision of a pass over the queue: jobs to start at once, and plans for others."""
