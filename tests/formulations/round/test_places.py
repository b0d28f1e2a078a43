"""Gangs of whole nodes find leaves or domains wherever there are some."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from formulations.knapsack import placed_by_places
from formulations.round.check import check
from formulations.round.decode import pack
from formulations.round.tables import RoundProblem, Scope
from tests.formulations.worlds.rounds import Candidate, Hold, tiny

GPUS = 4


def gangs_on(
    place: Sequence[int], gangs: Sequence[int], scope: Scope, busy: Sequence[int] = ()
) -> RoundProblem:
    """One candidate a job: a gang of so many whole nodes; a job more on each busy node."""
    ways = [Candidate(job, (GPUS,) * many, scope=scope) for job, many in enumerate(gangs)]
    holds = [Hold(len(gangs) + at, node, 1) for at, node in enumerate(busy)]
    leaf = place if scope == Scope.LEAF else [0] * len(place)
    domain = place if scope == Scope.NVLINK else list(range(len(place)))
    return tiny([GPUS] * len(place), ways, holds=holds, leaf=leaf, domain=domain)


def everyone(problem: RoundProblem) -> np.ndarray:
    """The choice in which every gang starts and every job that runs stays."""
    options, count = problem.options, problem.candidates.count
    return np.append(np.arange(count), options.stay[count:])


@pytest.mark.parametrize("scope", [Scope.LEAF, Scope.NVLINK])
def test_gangs_are_divided_where_the_largest_first_would_not_fit(scope: Scope) -> None:
    """Seven nodes each: 3 + 3 leave a node idle, and four gangs of two need eight of the others."""
    problem = gangs_on([0] * 7 + [1] * 7, [3, 3, 2, 2, 2, 2], scope)
    choice = everyone(problem)
    assert pack(problem, choice) is None
    found = placed_by_places(problem, choice)
    assert found is not None
    check(problem, found)


@pytest.mark.parametrize("seed", range(60))
def test_places_are_found_if_and_only_if_there_are_some(seed: int) -> None:
    draw = np.random.default_rng((seed, 73))
    place = np.sort(draw.integers(0, 3, 10)).tolist()
    gangs = draw.integers(2, 5, int(draw.integers(1, 5))).tolist()
    busy = np.flatnonzero(draw.random(10) < 0.15).tolist()
    scope = Scope.LEAF if seed % 2 else Scope.NVLINK
    problem = gangs_on(place, gangs, scope, busy)
    free = np.bincount([own for at, own in enumerate(place) if at not in busy], minlength=3)
    possible = any(
        (np.bincount(where, gangs, minlength=3) <= free).all()
        for where in product(range(3), repeat=len(gangs))
    )
    found = placed_by_places(problem, everyone(problem))
    assert (found is not None) == possible
    if found is not None:
        check(problem, found)
