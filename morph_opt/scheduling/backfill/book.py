"""Facts about single jobs, kept from round to round so that only changes cost work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from operator import is_

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import Assignment, Job, JobState
from morph_opt.scheduling.backfill.queue import Demand, Running, Waiting


def same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether two sequences are of the same objects, one by one."""
    return len(some) == len(others) and all(map(is_, some, others))


class Book:
    """Numbers of jobs, and what follows from a job alone, kept from round to round.

    Nothing here decides: an empty book gives the same decisions.

    Attributes
    ----------
    waiting
        Each waiting job and its request, by number.
    held
        What each running job holds: assignment, nodes as bits, demand on each, time limit, and the
        job as it runs until that; None if it has started more than once.
    holders, free
        Assignments of a round, and what they leave free, shape (N, R).
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.waiting: dict[int, tuple[Job, Waiting]] = {}
        self.held: dict[int, tuple[Assignment, int, Demand, float, Running | None]] = {}
        self.holders: list[Assignment] = []
        self.free: Floats = np.zeros((0, 0))

    def numbered(self, states: Iterable[JobState]) -> dict[int, JobState] | None:
        """Return jobs by numbers that they keep, ascending in the order given.

        None if that cannot be, because a job comes before one that was there already.
        """
        numbers, found, last = self._numbers, {}, -1
        for known in states:
            number = numbers.get(known.job.name)
            if number is None:
                number = numbers[known.job.name] = len(numbers)
            if number < last:
                return None
            found[number] = known
            last = number
        return found


class Queue:
    """Waiting requests in order, kept from round to round."""

    def __init__(self) -> None:
        self._members: list[Waiting] = []
        self._ranked: list[tuple[float, float, int, int, Waiting]] = []
        self._ordered: list[Waiting] = []
        self._made = count()

    def of(self, requests: Iterable[Waiting]) -> Sequence[Waiting]:
        """Return the requests as `in_order` does; those of the round before keep their place."""
        members = list(requests)
        if not same(members, self._members):
            left = {id(one): one for one in members}
            # Numbers in order of coming settle ties, so that no two requests are compared.
            self._ranked = [
                *(each for each in self._ranked if left.pop(id(each[-1]), None) is not None),
                *((*rank(one), next(self._made), one) for one in left.values()),
            ]
            self._ranked.sort()
            self._members, self._ordered = members, [each[-1] for each in self._ranked]
        return self._ordered


def rank(one: Waiting) -> tuple[float, float, int]:
    """Return the rank of a request: its tier, priority and number, the smaller first."""
    return -one.tier, -one.priority, one.job


def in_order(waiting: Iterable[Waiting]) -> list[Waiting]:
    """Return requests by tier, priority, submission and name, the first to be served first."""
    return sorted(waiting, key=rank)
