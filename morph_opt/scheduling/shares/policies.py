"""Gavel's policies as target shares: one function each, solved exactly and certified.

Every function takes a `ShareProblem` (arrays) and answers `Shares`. The formulas, with their
names, are on ``docs/formulations/fairness.md`` and its neighbours; the source is Gavel (OSDI'20),
section 4 and appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from formulations.alike import earlier_first
from formulations.arrays import Floats, Ints
from formulations.parameters import SHARES
from formulations.shares.model import fastest, slo_model, value_model
from formulations.shares.problem import (
    ShareProblem,
    equal_share_rates,
)
from formulations.tolerances import CHOSEN, FEASIBILITY, SOLVED
from morph_opt.scheduling.shares.finish_time import FinishTimes
from morph_opt.scheduling.shares.max_min import Solve, lp_solver
from morph_opt.scheduling.shares.packed_max_min import granted, raise_rates
from morph_opt.scheduling.shares.parameters import FILLING
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop, relative_gap
from morph_opt.scheduling.solvers.registry import make_solver


@dataclass(frozen=True, slots=True)
class Shares:
    """Target shares with their value.

    Parameters
    ----------
    x
        Fraction of time of each job on each type, alone, shape (J, T).
    pair_x
        Shares of each pair, shape (P, T).
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


def max_min(
    problem: ShareProblem, weight: Floats, *, aware: bool = True, solve: Solve | None = None
) -> Shares:
    """Maximise the least weighted share (LAS): ``min_j s_j thr_j / (w_j p_j)``.

    Parameters
    ----------
    weight
        ``w``, above 0, shape (J,); a larger weight gives a larger share.
    aware
        Heterogeneity-aware; otherwise every throughput counts as 1 (and ``p = 1``).
    """
    weight = _require("weight", weight, problem.jobs, above=0.0)
    target = problem if aware else problem.agnostic()
    slope = weight * equal_share_rates(target) / target.gang
    raised, y = raise_rates(target, slope, solve or lp_solver())
    return Shares(raised.x, y, raised.level, raised.bound, solves=raised.solves)


def makespan(problem: ShareProblem, steps_left: Floats, *, solve: Solve | None = None) -> Shares:
    """Minimise the time T at which the last job ends: ``thr_j >= r_j / T``.

    One linear program in 1/T. Paper and artifact bisect T; the artifact stops at 5 %.
    """
    steps_left = _require("steps_left", steps_left, problem.jobs, above=0.0)
    raised, y = raise_rates(problem, steps_left, solve or lp_solver())
    return Shares(raised.x, y, 1.0 / raised.level, 1.0 / raised.bound, solves=raised.solves)


def finish_time(
    problem: ShareProblem,
    steps_left: Floats,
    since_s: Floats,
    isolated_s: Floats,
    *,
    solve: Solve | None = None,
) -> Shares:
    """Minimise the finish-time ratio (Themis): ``min max_j (t_j + r_j/thr_j) / (C_j + r_j/I_j)``.

    With ``q = 1 / ratio`` the demand of job j is ``r_j q / (D_j - q t_j)``, convex in q, and
    linear where ``t_j = 0``. Newton's method from above: every tangent demands less than the job
    needs, so every LP bounds q from above, and the iterates decrease to the optimum. Where the
    tangents are too steep for the digits of a double, q is bisected: every step is a kernel without
    bases, and proves q too large or finds shares that reach it.

    Parameters
    ----------
    steps_left, since_s
        ``r`` (above 0) and ``t``, seconds since submission, shape (J,).
    isolated_s
        ``C``, seconds that the work done so far would have taken on 1/n of the cluster.
    """
    search = FinishTimes(
        problem,
        _require("steps_left", steps_left, problem.jobs, above=0.0),
        _require("since_s", since_s, problem.jobs, above=-FEASIBILITY),
        _require("isolated_s", isolated_s, problem.jobs, above=-FEASIBILITY),
        solve or lp_solver(),
    )
    search.run()
    x, y = search.shares
    return Shares(x, y, 1.0 / search.reached, 1.0 / search.bound, solves=search.solves)


def total_throughput(problem: ShareProblem, *, solve: Solve | None = None) -> Shares:
    """Maximise ``sum_j thr_j`` in steps per second."""
    found = _value(problem, np.ones_like(problem.throughput), None, solve or lp_solver())
    return _require_shares(found)


def cost(
    problem: ShareProblem,
    price: Floats,
    steps_left: Floats,
    slo_s: Floats,
    *,
    solve: Solve | None = None,
    solver: str = "highs",
) -> Shares:
    """Maximise throughput per dollar, ``sum T/c_m x``, with ``thr_j >= r_j / SLO_j``.

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
    shares = _value(problem, value, floor, solve)
    if isinstance(shares, Shares):
        return shares
    if shares.status is not Status.INFEASIBLE:
        raise ValueError(f"it is unknown whether all SLOs can be kept: {shares.message}")
    dropped = _dropped(problem, floor, solver)
    floor = floor.copy()
    # A little slack: the MILP keeps its rows only to a solver's tolerance.
    floor[list(dropped)] = 0.0
    floor *= 1.0 - SOLVED
    shares = _require_shares(_value(problem, value, floor, solve))
    return replace(shares, dropped=dropped, solves=shares.solves + 1)


def _dropped(problem: ShareProblem, floor: Floats, solver: str) -> tuple[int, ...]:
    top = fastest(problem)
    infeasible = (floor > top) & (problem.pairs.count == 0)
    asked = np.where(infeasible | (floor <= SHARES.negligible * top), 0.0, floor)
    model = slo_model(problem, asked)
    rows = np.flatnonzero(asked > 0)
    outcome = make_solver(solver).solve(model.model, Limits(gap=0.0, time_s=600.0))
    if outcome.x is None or outcome.bound - outcome.objective > 1.0 - SOLVED:
        raise ValueError(f"the fewest SLOs to drop could not be proven: {outcome.message}")
    keep = outcome.x[-rows.size :] if rows.size else np.zeros(0)
    lost = [*np.flatnonzero(infeasible), *rows[keep < CHOSEN]]
    return tuple(sorted(int(job) for job in lost))


def _value(
    problem: ShareProblem, value: Floats, floor: Floats | None, solve: Solve
) -> Shares | Outcome:
    """Return the most valuable shares that keep the floors, or the outcome without a point."""
    least = np.zeros(problem.jobs) if floor is None else floor
    model = None
    if problem.types == 1 and not problem.pairs.count:
        outcome = _by_worth(problem, value, least)
    else:
        model = value_model(problem, value, floor)
        outcome = solve(model.model)
    if outcome.x is None:
        return outcome
    x, y = (outcome.x, np.zeros((0, 1))) if model is None else model.shares(outcome.x)
    if floor is not None:
        x, y = granted(problem, x, y, floor)
    x = _earlier_first(problem, x, value, least)
    return Shares(x, y, outcome.objective, outcome.bound, solves=int(model is not None))


def _require_shares(found: Shares | Outcome) -> Shares:
    if isinstance(found, Outcome):
        raise ValueError(f"no shares keep every SLO: {found.message}")
    return found


def _by_worth(problem: ShareProblem, value: Floats, floor: Floats) -> Outcome:
    """Fill a single type by value per GPU (Dantzig 1957): the optimum of `value_model` there.

    Jobs of equal value per GPU are filled as listed. The bound is that of the value per GPU at
    which the GPUs end.
    """
    speed, gang, gpus = problem.throughput[:, 0], problem.gang, float(problem.capacity[0])
    worth = value[:, 0] * speed
    least = np.where(floor > SHARES.negligible * speed, floor / speed, 0.0)
    left = gpus - float(gang @ least)
    if (least > 1.0 + SOLVED).any() or left < -SOLVED * gpus:
        return Outcome(Status.INFEASIBLE, Stop.PROVED, "by value per GPU")
    order = np.argsort(-worth / gang, kind="stable")
    room = np.maximum((1.0 - least) * gang, 0.0)[order]
    taken = np.clip(max(left, 0.0) - (np.cumsum(room) - room), 0.0, room)
    x = least.copy()
    x[order] += taken / gang[order]
    short = order[taken < room]
    price = float(worth[short[0]] / gang[short[0]]) if short.size else 0.0
    gain = worth - price * gang
    objective = float(worth @ x)
    bound = price * gpus + float(np.maximum(gain, gain * least).sum())
    return Outcome(
        Status.OPTIMAL,
        Stop.PROVED,
        "by value per GPU",
        x=x[:, None],
        objective=objective,
        bound=max(bound, objective),
        gap=relative_gap(objective, max(bound, objective)),
    )


def _earlier_first(problem: ShareProblem, x: Floats, value: Floats, floor: Floats) -> Floats:
    """Give the larger of equal jobs' shares to the jobs listed first.

    Shares of pairs name their jobs, so nothing is exchanged with them.
    """
    if problem.pairs.count or problem.jobs < 2:
        return x
    columns = np.column_stack([problem.throughput, problem.gang, value, floor])
    kind = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    falling = np.column_stack([-x.sum(axis=1), -x]).tolist()
    return x[earlier_first(kind.tolist(), range(problem.jobs), falling.__getitem__)]


def in_order(problem: ShareProblem, order: Ints, *, strictly: bool = False) -> Shares:
    """Serve whole gangs in this order, each on the fastest type with enough free GPUs.

    Where ``strictly``, nobody passes a gang for which no type has room, as in the published code;
    otherwise smaller ones may.

    ``fifo`` is the order of arrival, ``srpt`` the order of the remaining time on the fastest type.
    The objective is the number of jobs that run.
    """
    free, speeds = problem.capacity.copy(), problem.speed
    x = np.zeros_like(problem.throughput)
    for job in order.tolist():
        room = free >= problem.gang[job]
        if strictly and not room.any():
            break
        speed = np.where(room, speeds[job], 0.0)
        kind = int(speed.argmax())
        if speed[kind] > 0:
            x[job, kind] = 1.0
            free[kind] -= problem.gang[job]
    count = float(x.sum())
    return Shares(x, np.zeros((problem.pairs.count, problem.types)), count, count)


def srpt_order(problem: ShareProblem, steps_left: Floats) -> Ints:
    """Return jobs by remaining seconds on their fastest type, ties in the order given."""
    return np.argsort(steps_left / fastest(problem), kind="stable")


def filled(
    problem: ShareProblem, shares: Shares, floor: Floats, *, solve: Solve | None = None
) -> Shares:
    """Return shares that give every job its ``floor`` and leave the fewest GPUs idle.

    Optimal shares are rarely unique, and a vertex may leave GPUs to nobody. The objective and
    bound stay as they were.

    Parameters
    ----------
    floor
        Steps per second that the policy grants each job, shape (J,).
    """
    with np.errstate(divide="ignore"):
        worth = np.where(problem.allowed, problem.gang[:, None] / problem.throughput, 0.0)
    floor = floor * (1.0 - FILLING.slack)
    model = value_model(problem, worth, floor)
    outcome = (solve or lp_solver())(model.model)
    if outcome.x is None:
        return shares
    x, y = granted(problem, *model.shares(outcome.x), floor)
    return Shares(x, y, shares.objective, shares.bound, shares.dropped, shares.solves + 1)
