"""Reasons why a request waits, by the rules of its queue, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from morph_opt.scheduling.backfill.nodes import bits
from morph_opt.scheduling.backfill.queue import Demand, Free, Planned, Running, Waiting

SHOWN = 3
"""Largest number of jobs or nodes that a sentence names."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Plans and ranks that the rules of a policy derive from its queue at an instant.

    Parameters
    ----------
    planned
        Planned starts, by job.
    because
        Words on a job's rank, by job; none if priority and submission determine it.
    unplanned
        Reason why a job has no planned start, by job; the rule of the policy where it has none.
    rule
        Rule by which a job has no planned start.
    """

    planned: Mapping[int, Planned]
    because: Mapping[int, str] = field(default_factory=dict)
    unplanned: Mapping[int, str] = field(default_factory=dict)
    rule: str = "it has no planned start"


@dataclass(frozen=True, slots=True)
class Look:
    """Queue and nodes of a cluster right after a decision.

    Parameters
    ----------
    now_s
        The instant.
    queue
        Jobs that still wait, in order.
    free, running
        See the classes.
    names
        Names of all jobs, by number.
    nodes
        Names of the nodes.
    outlook
        See the class.
    """

    now_s: float
    queue: Sequence[Waiting]
    free: Free
    running: Sequence[Running]
    names: Sequence[str]
    nodes: Sequence[str]
    outlook: Outlook

    def why(self, job: int) -> str:
        """Return why a waiting job does not start now: rank, nodes, plan and who is in its way."""
        place = next((i for i, one in enumerate(self.queue) if one.job == job), None)
        if place is None:
            return "its partition is not up"
        one = self.queue[place]
        rank = f"place {place + 1} of {len(self.queue)} in the queue"
        if job in self.outlook.because:
            rank += f" ({self.outlook.because[job]})"
        parts = [rank, self._room(one), *self._in_the_way(place), self._plan(one)]
        return "; ".join(parts)

    def _room(self, one: Waiting) -> str:
        """Return how many nodes could take the job now, and how many it needs."""
        fits, allowed = self.free.fits(one.demand) & one.allowed, one.allowed
        each = " each" if one.nodes > 1 else ""
        text = f"asks for {_count(one.nodes, 'node')} with {_asked(one.demand)}{each}, and "
        text += f"{fits.bit_count()} of the {_count(allowed.bit_count(), 'node')} that may hold it "
        text += f"{'has' if fits.bit_count() == 1 else 'have'} them free"
        for word, nodes in (("down", self.free.down), ("completing", self.free.completing)):
            if nodes & allowed:
                text += f" ({(nodes & allowed).bit_count()} {word})"
        return text

    def _in_the_way(self, place: int) -> Iterator[str]:
        """Yield the reservations that the job would run into if it started now."""
        one = self.queue[place]
        fits = self.free.fits(one.demand) & one.allowed
        until_s = self.now_s + one.limit_s
        for bar in one.barred:
            if bar.begin_s < until_s and bar.end_s > self.now_s and bar.nodes & one.allowed:
                kept = _names(self.nodes, bar.nodes & one.allowed)
                since = (
                    ""
                    if bar.begin_s <= self.now_s
                    else (f"in {duration(bar.begin_s - self.now_s)} ")
                )
                until = duration(bar.end_s - self.now_s)
                yield f"{kept} kept by reservation {bar.why} {since}for {until} from now"
        if fits.bit_count() < one.nodes:
            return
        plans = self.outlook.planned
        ahead = [plans[each.job] for each in self.queue if each.job in plans and each is not one]
        met = [each for each in ahead if each.start_s < until_s and each.nodes & fits]
        if met:
            held = [
                f"{_names(self.nodes, each.nodes & fits)} for {self.names[each.job]} in "
                f"{duration(each.start_s - self.now_s)}"
                for each in sorted(met, key=lambda each: each.start_s)[:SHOWN]
            ]
            more = f" and {len(met) - SHOWN} more" if len(met) > SHOWN else ""
            yield (
                f"by its limit it would run for {duration(one.limit_s)}, and nodes are reserved: "
                f"{', '.join(held)}{more}"
            )

    def _plan(self, one: Waiting) -> str:
        found = self.outlook.planned.get(one.job)
        if found is None:
            return self.outlook.unplanned.get(one.job, self.outlook.rule)
        text = f"planned to start in {duration(found.start_s - self.now_s)} "
        text += f"on {_names(self.nodes, found.nodes)}"
        there = [each for each in self.running if each.nodes & found.nodes & ~self._now(one)]
        if there:
            last = max(there, key=lambda each: (min(each.end_s, found.start_s), -each.job))
            text += f", by the limits of running jobs ({self.names[last.job]}"
            text += f" ends within {duration(last.end_s - self.now_s)})"
        return text

    def _now(self, one: Waiting) -> int:
        return self.free.fits(one.demand) & one.allowed


def duration(seconds: float) -> str:
    """Format a duration as ``40 s``, ``12.5 min`` or ``3.25 h``."""
    if seconds < 120.0:
        return f"{max(0.0, seconds):.3g} s"
    return f"{seconds / 60.0:.3g} min" if seconds < 7200.0 else f"{seconds / 3600.0:,.4g} h"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _asked(demand: Demand) -> str:
    return _count(round(demand[0]), "GPU")


def _names(names: Sequence[str], nodes: int) -> str:
    """Return the first names of a set of nodes, and how many more there are."""
    found = [names[node] for node in bits(nodes)]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return " ".join(found[:SHOWN]) + more
