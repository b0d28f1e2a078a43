"""Reservations on the nodes of a cluster, as intervals in which a job may not be there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from morph_opt.core.domain import InputError, Job
from morph_opt.core.domain.reservation import Reservation
from morph_opt.scheduling.backfill.queue import Barred

AHEAD_S = 30 * 86_400.0
"""Seconds from now on in which recurring reservations are known, beyond the limit of a job."""


class Kept:
    """Reservations of a cluster.

    Parameters
    ----------
    reservations
        In seconds of the trace.
    index
        Nodes by name; one node may have several names.

    Raises
    ------
    InputError
        If a reservation names a node that is not there.
    """

    def __init__(self, reservations: Iterable[Reservation], index: Mapping[str, int]) -> None:
        self._kept = [(one, _nodes(one, index)) for one in reservations]
        self._found: dict[tuple[str, str, float], tuple[float, tuple[Barred, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def barred(self, job: Job, limit_s: float, now_s: float) -> tuple[Barred, ...]:
        """Return the intervals, from now on, in which others keep nodes from a job."""
        key = job.user, job.tenant, limit_s
        found = self._found.get(key)
        if found is None or now_s >= found[0]:
            bars = [
                Barred(begin_s, end_s, nodes, one.name)
                for one, nodes in self._kept
                if not one.admits(job)
                for begin_s, end_s in _intervals(one, now_s, AHEAD_S + limit_s)
            ]
            found = self.next_end_s(now_s), tuple(bars)
            self._found[key] = found
        return found[1]

    def next_end_s(self, now_s: float) -> float:
        """Return the next end of a reservation after an instant; infinite if there is none."""
        ends = (end_s for one, _ in self._kept for _, end_s in _intervals(one, now_s, AHEAD_S))
        return min(ends, default=math.inf)


def _nodes(one: Reservation, index: Mapping[str, int]) -> int:
    """Return the nodes of a reservation, as bits."""
    found = set(index.values()) if one.nodes is None else set()
    for name in one.nodes or ():
        nodes = {i for known, i in index.items() if known == name or fnmatchcase(known, name)}
        if not nodes:
            raise InputError(f"names {name!r}, which is no node", field=f"reservation {one.name}")
        found |= nodes
    return sum(1 << i for i in found)


def _intervals(one: Reservation, now_s: float, ahead_s: float) -> Iterator[tuple[float, float]]:
    """Yield the intervals of a reservation from an instant on, all if it does not recur."""
    return one.intervals(now_s, math.inf if one.every_s is None else now_s + ahead_s)
