"""Gavel's policies as target shares: one function each, solved exactly and certified.

Every function takes a `ShareProblem` (arrays) and answers `Shares`. The formulas, with their
names, are on ``docs/formulations/fairness.md`` and its neighbours; the source is Gavel (OSDI'20),
section 4 and appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from formulations.shares.kernel import Demands
from formulations.shares.model import fastest, slo_model, value_model
from formulations.shares.problem import (
    ShareProblem,
    equal_share_rates,
    isolated_rates,
    isolated_shares,
)
from morph_opt.shares.max_min import Raised, Solve, lp_solver, raise_level
from morph_opt.shares.packed_max_min import packed_raise
from morph_opt.solvers.outcome import Limits
from morph_opt.solvers.registry import make_solver

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shares:
    """Target shares with their value.

    Parameters
    ----------
    x
        Fraction of time of each job on each type, alone, shape (J, T).
    pair_x
        Of each pair, shape (P, T).
    objective
        Value of the policy's own formula at these shares, recomputed from the definition.
    bound
        Proven limit: no shares have a better value (above for maximised, below for minimised).
    dropped
        Jobs whose SLO cannot be kept together with the others'.
    solves
        Models solved.
    """

    x: Floats
    pair_x: Floats
    objective: float
    bound: float
    dropped: tuple[int, ...] = ()
    solves: int = 0


def _require(name: str, values: Floats, jobs: int, *, above: float) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    if values.shape != (jobs,):
        raise ValueError(f"{name} must have shape {(jobs,)}, got {values.shape}")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > above)))
    if bad.size:
        job = int(bad[0])
        raise ValueError(f"job {job}: {name} must be above {above:g}, got {values[job]:g}")
    return values


def _raise(
    problem: ShareProblem,
    slope: Floats,
    solve: Solve,
    base: Floats | None = None,
    prices: Floats | None = None,
) -> tuple[Raised, Floats]:
    """The kernel, with or without pairs; the second value is the shares of pairs."""
    base = np.zeros(problem.jobs) if base is None else base
    if problem.pairs.count:
        level, x, y, turns = packed_raise(problem, base, slope, solve)
        rates = problem.rates(x, y)
        rows = slope > 0
        reached = float(((rates - base)[rows] / slope[rows]).min())
        none = np.zeros(problem.types)
        return Raised(reached, level, x, none, np.zeros(problem.jobs), turns), y
    demands = Demands(problem.speed, problem.gang, problem.capacity, base, slope)
    return raise_level(demands, solve, prices), np.zeros((0, problem.types))


def max_min(
    problem: ShareProblem, weight: Floats, *, aware: bool = True, solve: Solve | None = None
) -> Shares:
    """Max-min fairness (LAS): maximise ``min_i s_i thr_i / (w_i p_i)``.

    Parameters
    ----------
    weight
        ``w``, above 0, shape (J,); a larger weight asks for a larger share.
    aware
        Heterogeneity-aware; otherwise every throughput counts as 1 (and ``p = 1``).
    """
    weight = _require("weight", weight, problem.jobs, above=0.0)
    target = problem if aware else problem.agnostic()
    slope = weight * equal_share_rates(target) / target.gang
    raised, y = _raise(target, slope, solve or lp_solver())
    return Shares(raised.x, y, raised.level, raised.bound, solves=raised.solves)


def makespan(problem: ShareProblem, steps_left: Floats, *, solve: Solve | None = None) -> Shares:
    """Minimise the time T at which the last job ends: ``thr_i >= r_i / T``.

    One linear program in 1/T. Paper and artifact bisect T; the artifact stops at 5 %.
    """
    steps_left = _require("steps_left", steps_left, problem.jobs, above=0.0)
    raised, y = _raise(problem, steps_left, solve or lp_solver())
    return Shares(raised.x, y, 1.0 / raised.level, 1.0 / raised.bound, solves=raised.solves)


def finish_time(
    problem: ShareProblem,
    steps_left: Floats,
    since_s: Floats,
    isolated_s: Floats,
    *,
    solve: Solve | None = None,
) -> Shares:
    """Finish-time fairness (Themis): ``min max_i (t_i + r_i/thr_i) / (C_i + r_i/I_i)``.

    With ``q = 1 / ratio`` the demand of job i is ``r_i q / (D_i - q t_i)``, convex in q, and
    linear where ``t_i = 0``. Newton's method from above: every tangent asks for less than the
    job needs, so every LP bounds q from above, and the iterates decrease to the optimum.

    Parameters
    ----------
    steps_left, since_s
        ``r`` (above 0) and ``t``, seconds since submission, shape (J,).
    isolated_s
        ``C``, seconds that the work done so far would have taken on 1/n of the cluster.
    """
    steps_left = _require("steps_left", steps_left, problem.jobs, above=0.0)
    since_s = _require("since_s", since_s, problem.jobs, above=-1e-9)
    isolated_s = _require("isolated_s", isolated_s, problem.jobs, above=-1e-9)
    solve = solve or lp_solver()
    fair_s = isolated_s + steps_left / isolated_rates(problem)
    top = float((fair_s / (since_s + steps_left / fastest(problem))).min())
    q, prices, solves = 0.0, None, 0
    worst, best, x, y = 0.0, np.inf, np.zeros((0, 0)), np.zeros((0, 0))
    for _ in range(60):
        room = fair_s - q * since_s
        slope = steps_left * fair_s / room**2
        raised, y = _raise(problem, slope, solve, steps_left * q / room - slope * q, prices)
        solves += raised.solves
        rates = np.maximum(problem.rates(raised.x, y), 1e-300)
        reached = 1.0 / float(((since_s + steps_left / rates) / fair_s).max())
        if reached > worst:
            worst, x, pair_x = reached, raised.x, y
        best = min(best, raised.bound, top)
        prices = raised.prices if raised.prices.any() else None
        if best - worst <= 1e-8 * best or min(raised.level, top) >= q > 0.0:
            break
        q = min(raised.level, top)
    return Shares(x, pair_x, 1.0 / worst, 1.0 / best, solves=solves)


def total_throughput(problem: ShareProblem, *, solve: Solve | None = None) -> Shares:
    """Maximise ``sum_i thr_i`` in steps per second."""
    return _value(problem, np.ones_like(problem.throughput), None, solve or lp_solver())


def cost(
    problem: ShareProblem,
    price: Floats,
    steps_left: Floats,
    slo_s: Floats,
    *,
    solve: Solve | None = None,
    solver: str = "highs",
) -> Shares:
    """Maximise throughput per dollar, ``sum T/c_j x``, with ``thr_i >= r_i / SLO_i``.

    When not all SLOs can be kept the fewest are dropped (an exact MILP), and named; the artifact
    drops all of them.

    Parameters
    ----------
    price
        Dollars per hour of a GPU of each type, above 0, shape (T,).
    steps_left
        ``r``, shape (J,).
    slo_s
        Seconds left until the deadline, shape (J,); inf without one.

    Raises
    ------
    ValueError
        If a deadline is in the past (``slo_s <= 0``), or the MILP ends without a proof.
    """
    price = _require("price", price, problem.types, above=0.0)
    late = np.flatnonzero(np.isnan(slo_s) | (slo_s <= 0))
    if late.size:
        raise ValueError(f"job {int(late[0])}: its SLO is in the past")
    solve = solve or lp_solver()
    value = np.broadcast_to(1.0 / price, problem.throughput.shape)
    floor = np.where(np.isfinite(slo_s), steps_left / slo_s, 0.0)
    outcome = solve(value_model(problem, value, floor).model)
    dropped: tuple[int, ...] = ()
    if outcome.x is None:
        dropped = _dropped(problem, floor, solver)
        floor = floor.copy()
        # A hair of slack: the MILP keeps its rows to 1e-6 only.
        floor[list(dropped)] = 0.0
        floor *= 1.0 - 1e-6
    shares = _value(problem, value, floor, solve)
    return Shares(
        shares.x, shares.pair_x, shares.objective, shares.bound, dropped, shares.solves + 1
    )


def _dropped(problem: ShareProblem, floor: Floats, solver: str) -> tuple[int, ...]:
    top = fastest(problem)
    hopeless = (floor > top) & (problem.pairs.count == 0)
    model = slo_model(problem, np.where(hopeless, 0.0, floor))
    rows = np.flatnonzero((floor > 0) & ~hopeless)
    outcome = make_solver(solver).solve(model.model, Limits(gap=0.0, time_s=600.0))
    if outcome.x is None or outcome.bound - outcome.objective > 1.0 - 1e-6:
        raise ValueError(f"the fewest SLOs to drop could not be proven: {outcome.message}")
    keep = outcome.x[-rows.size :] if rows.size else np.zeros(0)
    lost = [*np.flatnonzero(hopeless), *rows[keep < 0.5]]
    return tuple(sorted(int(job) for job in lost))


def _value(problem: ShareProblem, value: Floats, floor: Floats | None, solve: Solve) -> Shares:
    model = value_model(problem, value, floor)
    outcome = solve(model.model)
    if outcome.x is None:
        raise ValueError(f"no shares keep every SLO: {outcome.message}")
    x, y = model.shares(outcome.x)
    return Shares(x, y, outcome.objective, outcome.bound, solves=1)


def in_order(problem: ShareProblem, order: Ints) -> Shares:
    """Whole gangs in this order, each on the fastest type that still has room.

    ``fifo`` is the order of arrival, ``srpt`` that of the remaining time on the fastest type.
    The objective is the number of jobs that run.
    """
    free = problem.capacity.copy()
    x = np.zeros_like(problem.throughput)
    for job in order.tolist():
        speed = np.where(free >= problem.gang[job], problem.speed[job], 0.0)
        kind = int(speed.argmax())
        if speed[kind] > 0:
            x[job, kind] = 1.0
            free[kind] -= problem.gang[job]
    count = float(x.sum())
    return Shares(x, np.zeros((problem.pairs.count, problem.types)), count, count)


def srpt_order(problem: ShareProblem, steps_left: Floats) -> Ints:
    """Jobs by remaining seconds on their fastest type, ties in the order given."""
    return np.argsort(steps_left / fastest(problem), kind="stable")


def filled(
    problem: ShareProblem, shares: Shares, floor: Floats, *, solve: Solve | None = None
) -> Shares:
    """Of all shares that give every job its ``floor``, those that leave the fewest GPUs idle.

    Optimal shares are rarely unique, and a vertex may leave GPUs to nobody. The objective and
    bound stay as they were.

    Parameters
    ----------
    floor
        Steps per second that the policy grants each job, shape (J,).
    """
    with np.errstate(divide="ignore"):
        worth = np.where(problem.allowed, problem.gang[:, None] / problem.throughput, 0.0)
    model = value_model(problem, worth, floor * (1.0 - 1e-7))
    outcome = (solve or lp_solver())(model.model)
    if outcome.x is None:
        return shares
    x, y = model.shares(outcome.x)
    return Shares(x, y, shares.objective, shares.bound, shares.dropped, shares.solves + 1)


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """What a policy may look at, as columns of shape (J,) unless stated.

    Parameters
    ----------
    problem
        Jobs and types.
    weight, steps_left, since_s, isolated_s, arrival
        Share weight, remaining steps, seconds since submission, seconds that the work done so
        far would have taken on an equal part of the cluster, rank of arrival.
    entity
        Owner of each job, 0..E-1.
    slo_s
        Seconds left until the deadline; inf without one.
    price
        Dollars per hour of a GPU of each type, shape (T,).
    entity_weight
        Weight of each entity, above 0, shape (E,); None: 1 each.
    """

    problem: ShareProblem
    weight: Floats
    steps_left: Floats
    since_s: Floats
    isolated_s: Floats
    arrival: Ints
    entity: Ints
    slo_s: Floats
    price: Floats
    entity_weight: Floats | None = None

    def weight_of_entities(self) -> Floats:
        """Weight of each entity, shape (E,)."""
        if self.entity_weight is not None:
            return self.entity_weight
        return np.ones(int(self.entity.max(initial=0)) + 1)


def shares_of(policy: str, request: ShareRequest, solve: Solve) -> Shares:
    """Target shares of a policy by name (`SHARE_POLICIES`), filled up where LPs leave a choice.

    Raises
    ------
    ValueError
        If the policy is unknown, or its own rules are broken.
    """
    from morph_opt.shares.water_filling import Entities, hierarchical

    p, q = request.problem, request
    match policy:
        case "fairness":
            found = max_min(p, q.weight, solve=solve)
            floor = q.weight * equal_share_rates(p) / p.gang * found.objective
        case "fairness-agnostic":
            found = max_min(p, q.weight, aware=False, solve=solve)
            return filled(p.agnostic(), found, q.weight / p.gang * found.objective, solve=solve)
        case "water-filling":
            alone = Entities(np.arange(p.jobs, dtype=np.int64), q.weight, np.ones(p.jobs))
            return hierarchical(p, alone, solve=solve)
        case "isolated":
            x = isolated_shares(p)
            return Shares(x, np.zeros((p.pairs.count, p.types)), float(p.jobs), float(p.jobs))
        case "makespan":
            found = makespan(p, q.steps_left, solve=solve)
            floor = q.steps_left / found.objective
        case "ftf":
            found = finish_time(p, q.steps_left, q.since_s, q.isolated_s, solve=solve)
            fair_s = q.isolated_s + q.steps_left / isolated_rates(p)
            floor = q.steps_left / (found.objective * fair_s - q.since_s)
        case "hierarchical" | "hierarchical-fifo":
            below = "fairness" if policy == "hierarchical" else "fifo"
            entities = Entities(q.entity, q.weight_of_entities(), q.weight, below)
            return hierarchical(p, entities, solve=solve)
        case "max_throughput":
            return total_throughput(p, solve=solve)
        case "cost":
            return cost(p, q.price, q.steps_left, q.slo_s, solve=solve)
        case "fifo":
            return in_order(p, np.argsort(q.arrival, kind="stable"))
        case "srpt":
            return in_order(p, srpt_order(p, q.steps_left))
        case _:
            raise ValueError(
                f"unknown share policy {policy!r}; known are {', '.join(SHARE_POLICIES)}"
            )
    return filled(p, found, floor, solve=solve)


SHARE_POLICIES = (
    "fairness",
    "fairness-agnostic",
    "hierarchical",
    "hierarchical-fifo",
    "ftf",
    "makespan",
    "max_throughput",
    "cost",
    "fifo",
    "srpt",
    "isolated",
    "water-filling",
)
"""Names that `shares_of` knows."""
