"""Objective ``cost``: keep the SLOs, then the most work per dollar; ``docs/formulations/cost.md``.

With n the seconds until a job would be complete in a configuration, its start-up counted
`RESTART_WEIGHT` times:

Level **slo**: a job with an SLO is worth ``1 / sqrt(n l)`` in a configuration that is
complete in the l seconds until the deadline, and nothing in one that is too slow. That is the
geometric mean of shortest first (1 / n) and earliest deadline first (1 / l); it grows as a job
progresses, so jobs do not take turns.

Level **dollar**: ``(m / k) / n``, k being what the configuration costs to the end, m the same for
the job's cheapest one: the work done per second, as far as it is worth its money.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Floats
from formulations.round.tables import Level, RoundProblem

RESTART_WEIGHT = 2.0
"""How often a restart that the round would cause is counted (as for ``jct``)."""


@dataclass(frozen=True, slots=True)
class Bills:
    """Deadlines and prices of a round.

    Parameters
    ----------
    left_s
        Seconds until the deadline, 0 without one or past it, shape (J,).
    price_of_class
        Dollars per hour of a GPU of each node class, shape (C,).
    held_price
        Dollars per hour of what a job holds, 0 for nothing, shape (J,).
    """

    left_s: Floats
    price_of_class: Floats
    held_price: Floats


def levels(problem: RoundProblem, data: Bills) -> tuple[Level, ...]:
    """The levels ``slo`` and ``dollar``."""
    jobs, table = problem.jobs, problem.candidates
    owner, least_s, left_s = table.job, problem.interval_s, data.left_s
    run_s = jobs.iterations_left[owner] * table.iteration_s
    done_s = jobs.restart_s[owner] + run_s
    start_s = np.maximum(least_s, RESTART_WEIGHT * jobs.restart_s[owner] + run_s)
    pace = np.where(jobs.running, jobs.stay_iteration_s, 1.0)
    kept_s = jobs.restart_left_s + jobs.iterations_left * pace
    stay_s = np.maximum(least_s, kept_s)
    urgency = 1.0 / np.sqrt(np.maximum(least_s, left_s))
    slo = Level(
        "slo",
        "1 / s",
        np.where(done_s <= left_s[owner], urgency[owner] / np.sqrt(start_s), 0.0),
        np.where(jobs.running & (kept_s <= left_s), urgency / np.sqrt(stay_s), 0.0),
    )
    cost = data.price_of_class[table.node_class] * table.gpus * start_s
    stay_cost = np.where(jobs.running, data.held_price * stay_s, np.inf)
    cheapest = stay_cost.copy()
    np.minimum.at(cheapest, owner, cost)
    part = np.divide(cheapest, stay_cost, out=np.zeros(jobs.count), where=jobs.running)
    return slo, Level("dollar", "work / s", cheapest[owner] / cost / start_s, part / stay_s)
