"""Distinct nodes for gangs by free GPUs alone: exact up to a limit, and cached."""

from __future__ import annotations

from bisect import bisect_left

from formulations.parameters import DECODE

Gang = tuple[int, ...]
"""GPUs of the parts of one job on nodes of a class, largest first."""

Free = tuple[int, ...]
"""Free GPUs of the nodes of a class, ascending."""


class GaveUpError(Exception):
    """A search that exceeded its limit of parts or tries."""


class DistinctNodes:
    """Cache of answers on whether gangs find distinct nodes."""

    def __init__(self) -> None:
        self._known: dict[tuple[Free, tuple[Gang, ...]], bool] = {}

    def possible(self, free: Free, gangs: tuple[Gang, ...]) -> bool:
        """Return whether all gangs may have nodes; False is a proof that they cannot."""
        key = free, gangs
        if key not in self._known:
            self._known[key] = bool(_best_fit(free, gangs)) or self._searched(free, gangs)
        return self._known[key]

    @staticmethod
    def _searched(free: Free, gangs: tuple[Gang, ...]) -> bool:
        try:
            return nodes_of(free, gangs) is not None
        except GaveUpError:
            return True


def _best_fit(free: Free, gangs: tuple[Gang, ...]) -> bool:
    """Return whether every part fits on the fullest node with room for it, one by one."""
    left = list(free)
    for gang in gangs:
        after: list[int] = []
        for part in gang:
            at = bisect_left(left, part)
            if at == len(left):
                return False
            after.append(left.pop(at) - part)
        for room in after:
            left.insert(bisect_left(left, room), room)
    return True


def nodes_of(free: Free, gangs: tuple[Gang, ...]) -> list[list[int]] | None:
    """Return the nodes of the parts of each gang, or None if there are none.

    Depth first over gangs. A set of free nodes from which the rest failed once is not tried again.

    Raises
    ------
    GaveUpError
        After too many tries.
    """
    if sum(map(len, gangs)) > DECODE.most_parts:
        raise GaveUpError
    failed: set[tuple[int, Free]] = set()
    left = list(free)
    found: list[list[int]] = []
    tries, most_tries = 0, DECODE.most_tries

    def rest(at: int) -> bool:
        if at == len(gangs):
            return True
        state = at, tuple(sorted(left))
        if state in failed:
            return False
        if part_of(at, []):
            return True
        failed.add(state)
        return False

    def part_of(at: int, mine: list[int]) -> bool:
        nonlocal tries
        gang, which = gangs[at], len(mine)
        if which == len(gang):
            found.append(list(mine))
            if rest(at + 1):
                return True
            found.pop()
            return False
        tried: set[int] = set()
        # Equal parts are alike: the next one goes on a node behind the last one's.
        again = which > 0 and gang[which] == gang[which - 1]
        for node in range(mine[-1] + 1 if again else 0, len(left)):
            room = left[node]
            if room < gang[which] or room in tried or node in mine:
                continue
            tries += 1
            if tries > most_tries:
                raise GaveUpError
            tried.add(room)
            left[node] -= gang[which]
            if part_of(at, [*mine, node]):
                return True
            left[node] += gang[which]
        return False

    return found if rest(0) else None
