r"""Prices that prove how much a fleet must cost: recomputed from the tables, without a solver.

Page: ``docs/formulations/fleet.md#certificates``. Prices ``mu[w,t,b'] >= 0`` of GPU-seconds, one
per row ``capacity``, prove a *cut*, an inequality of every fleet ``n`` that serves what arrives:

    sum_t n[t] size[t] bin_s sum_{w,b'} mu[w,t,b']  >=  sum_{w,j,b} v[w,j,b]

``v`` is what the work of an arrival costs at these prices at least, each GPU-second in the
cheapest bin that it may run in. As ``n`` is whole and limited, the cheapest fleet that all the cuts
let pass is found by looking at every one (Benders 1962).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.fleet import FleetProblem, flows_of, pairs_of

SLACK = 1e-7
"""Of what arrives, by which a fleet may miss a cut: rounding must not refuse a good one."""
MOST_FLEETS = 10**6
"""Fleets that are looked at."""


@dataclass(frozen=True, slots=True)
class Cut:
    """``room @ nodes >= needed`` holds for every fleet that serves what arrives.

    Parameters
    ----------
    room
        What a node of each type is worth at the prices, shape (T,).
    needed
        What the work costs at the prices at least.
    """

    room: Floats
    needed: float

    def refuses(self, nodes: Ints) -> Bools:
        """Which of these fleets, shape (N, T), cannot serve what arrives."""
        return np.asarray(nodes @ self.room < self.needed * (1.0 - SLACK), dtype=np.bool_)


def priced_bins(problem: FleetProblem) -> Ints:
    """Scenario, type and bin of each price, in the order of the rows ``capacity``; shape (C, 3)."""
    return np.unique(flows_of(problem)[:, [0, 1, 3]], axis=0)


def cut_of(problem: FleetProblem, prices: Floats) -> Cut:
    """What prices prove.

    Parameters
    ----------
    prices
        At least 0, one per row of `priced_bins`.

    Raises
    ------
    ValueError
        If they are of another number, negative or not finite, or too large to be summed up.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        cut = _summed(problem, prices)
    if not (np.isfinite(cut.room).all() and np.isfinite(cut.needed)):
        raise ValueError("has prices that are too large")
    return cut


def _summed(problem: FleetProblem, prices: Floats) -> Cut:
    keys = priced_bins(problem)
    if prices.shape != (keys.shape[0],):
        raise ValueError(f"has {prices.size} prices, not {keys.shape[0]}")
    if not (np.isfinite(prices).all() and (prices >= 0.0).all()):
        raise ValueError("has a price that is negative or no number")
    worth = np.bincount(keys[:, 1], prices, minlength=problem.types)
    room: Floats = np.asarray(worth * problem.size * problem.bin_s, dtype=np.float64)
    flows = flows_of(problem)
    place = {key: row for row, key in enumerate(map(tuple, keys.tolist()))}
    cheapest: dict[tuple[int, int, int], float] = {}
    for w, t, begun, run in flows.tolist():
        price = float(prices[place[w, t, run]])
        cheapest[w, t, begun] = min(price, cheapest.get((w, t, begun), np.inf))
    arrival, config = pairs_of(problem)
    least = 0.0
    for row in range(problem.work.size):
        ways = config[arrival == row]
        w, begun = int(problem.scenario[row]), int(problem.bin[row])
        at = np.asarray([cheapest[w, int(t), begun] for t in problem.config_type[ways]])
        pace_s = problem.pace_s[ways]
        unit = problem.gpus[ways] * pace_s * at
        room_s = float(problem.jobs[row]) * (problem.delay_s - problem.lost_s)
        least += _least(unit, pace_s, float(problem.work[row]), room_s)
    return Cut(room, least)


def _least(unit: Floats, pace_s: Floats, work: float, room_s: float) -> float:
    """What work costs at least within so many seconds: a linear program of two rows, by its dual.

    For every price ``y >= 0`` of a second, ``work min_k (unit[k] + y pace[k]) - y room`` is a lower
    bound; the largest stands where two configurations cost the same, or at 0.
    """
    slower = pace_s[:, None] > pace_s[None, :]
    with np.errstate(divide="ignore"):
        equal = (unit[None, :] - unit[:, None]) / (pace_s[:, None] - pace_s[None, :])
    y: Floats = np.concatenate([[0.0], equal[slower & np.isfinite(equal) & (equal > 0.0)]])
    values = work * (unit[None, :] + y[:, None] * pace_s[None, :]).min(axis=1) - y * room_s
    return float(values.max())


def fleets_of(problem: FleetProblem) -> Ints:
    """Every fleet within limits, families and budget, by cost; shape (N, T).

    Raises
    ------
    ValueError
        If there are more than `MOST_FLEETS`.
    """
    if float(np.prod(problem.most.astype(np.float64) + 1.0)) > MOST_FLEETS:
        raise ValueError(f"has more than {MOST_FLEETS} fleets")
    axes = [np.arange(most + 1) for most in problem.most.tolist()]
    every = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, problem.types)
    good = every @ problem.price <= problem.budget
    for family in set(problem.family.tolist()) - {-1}:
        good &= (every[:, problem.family == family] > 0).sum(axis=1) <= 1
    kept = every[good]
    return np.asarray(kept[np.argsort(kept @ problem.price, kind="stable")], dtype=np.int64)


def cheapest_left(problem: FleetProblem, cuts: Sequence[Cut]) -> Ints | None:
    """The cheapest fleet that no cut refuses, shape (T,); None where they refuse all.

    No fleet that serves what arrives costs less.
    """
    every = fleets_of(problem)
    left = np.ones(every.shape[0], dtype=np.bool_)
    for cut in cuts:
        left &= ~cut.refuses(every)
    found = np.flatnonzero(left)
    return None if found.size == 0 else every[found[0]]
