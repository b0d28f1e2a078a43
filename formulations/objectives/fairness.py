"""Objectives that serve target shares; page ``docs/formulations/fairness.md``.

*Ratios*: no job much later than fair. With target shares a job would be complete at its *fair
finish*, ``T_j`` seconds after submission (one start-up included, as in a private cluster). The
finish-time ratio of a job is its completion time over ``T_j``. The goal is ``sum w ratio^(k+1)``,
which for large k is the largest ratio. A job that gets nothing in a round waits until a rival's
GPUs are free again, at least a start-up, and if it runs loses the start-up it has made. This adds

    c_j = w_j ((ratio_j + (d + s_j) / T_j)^(k+1) - ratio_j^(k+1)) / d      per second waited,

    ratio_j = (elapsed + start-up + rest) / T_j if it runs now,  d a start-up,  s_j the lost one.

Level **ratio**: ``c_j`` over the seconds to completion in a configuration, the weighted
shortest-processing-time rule, which is exact on one machine. A start pays its whole start-up, a
stay the remaining one. The increase over the whole wait, instead of its rate now, keeps a large k
from taking GPUs back from a job that got them a minute ago.

*Following*: service owed to a job. With x the target share on a GPU type, L the lag (seconds of
gang time owed so far) and H a horizon, the job *wants* ``d = min(1, x + L+/H)`` of its gang this
round with *urgency* ``u = 1 + L+/H``. Level **share**: the value of a configuration with speed q
relative to the gang is ``s u min(q, d)`` GPUs, start-up amortised. Service beyond d has no value on
this level, so other jobs get it, and malleable jobs share the cluster instead of taking turns.
Level **spare**: remaining GPUs go where they give the most normalised speed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.objectives import seconds_left
from formulations.parameters import RATIOS, SERVICE, RatioParams, ServiceParams
from formulations.round.tables import Level, RoundProblem


@dataclass(frozen=True, slots=True)
class FairFinish:
    """Completion times of jobs if they were served fairly.

    Parameters
    ----------
    finish_s
        Seconds from submission to the fair finish, without start-up, shape (J,).
    elapsed_s
        Seconds since submission, shape (J,).
    """

    finish_s: Floats
    elapsed_s: Floats


def ratio_levels(
    problem: RoundProblem, data: FairFinish, params: RatioParams = RATIOS
) -> tuple[Level, ...]:
    """Return the level ``ratio``."""
    cost = _cost(problem, data, params.power)[problem.options.members.job]
    worth = cost / np.maximum(problem.interval_s, seconds_left(problem, params.restart_weight))
    return (Level.of(problem, "ratio", "ratio^(k+1) / s^2", worth),)


def _cost(problem: RoundProblem, data: FairFinish, power: float) -> Floats:
    """Return the cost c of a second's wait, in powers of the largest ratio, shape (J,)."""
    jobs = problem.jobs
    fair_s = data.finish_s + jobs.restart_s
    rest_s = np.maximum(problem.interval_s, jobs.iterations_left * jobs.request_iteration_s)
    start_s = np.where(jobs.running, jobs.restart_left_s, jobs.restart_s)
    ratio = (data.elapsed_s + start_s + rest_s) / fair_s
    lost_s = jobs.restart_s - start_s
    wait_s = np.maximum(problem.interval_s, jobs.restart_s)
    later = ratio + (wait_s + lost_s) / fair_s
    # In units of the largest, so that no power overflows; the level's scale is free.
    unit = max(1.0, float(later.max(initial=0.0)))
    grown = (later / unit) ** (power + 1.0) - (ratio / unit) ** (power + 1.0)
    return np.asarray(jobs.weight * grown / wait_s)


@dataclass(frozen=True, slots=True)
class OwedShares:
    """Target shares of the requested gangs, and the lag of jobs.

    Parameters
    ----------
    gang
        GPUs of each job's gang, shape (J,).
    speed
        Iterations per second of the gang on each GPU type, 0 where it cannot run, shape (J, T).
    share
        Fraction of time due to the gang on each type, shape (J, T).
    lag_s
        Seconds of gang time due on a type less those received, shape (J, T).
    type_of_class
        GPU type of each node class, shape (C,).
    """

    gang: Floats
    speed: Floats
    share: Floats
    lag_s: Floats
    type_of_class: Ints


def share_levels(
    problem: RoundProblem, data: OwedShares, params: ServiceParams = SERVICE
) -> tuple[Level, ...]:
    """Return the levels ``share`` and ``spare``."""
    options, members, gang = problem.options, problem.options.members, data.gang
    speed = np.where(data.speed > 0, data.speed, 1.0)
    behind = np.maximum(data.lag_s, 0.0) / params.horizon_s
    want = np.minimum(1.0, data.share + behind)
    urgency = gang[:, None] * (1.0 + behind)
    owner, kind = members.job, data.type_of_class[options.node_class[members.option]]
    served = 1.0 / (members.iteration_s * speed[owner, kind])
    mean = params.amortise_s / (params.amortise_s + members.startup_s)
    owed = urgency[owner, kind] * np.minimum(served, want[owner, kind]) * mean
    return (
        Level.of(problem, "share", "GPUs owed", owed),
        Level.of(problem, "spare", "normalised speed", gang[owner] * served * mean),
    )
