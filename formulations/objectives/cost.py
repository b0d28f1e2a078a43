"""Objective ``cost``: keep the SLOs, then the most work per dollar; ``docs/formulations/cost.md``.

With n the seconds until a job would be complete in a configuration, its start-up counted
`WorkParams.restart_weight` times:

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

from formulations.arrays import Floats
from formulations.objectives import seconds_left
from formulations.parameters import WORK, WorkParams
from formulations.round.tables import Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Bills:
    """Deadlines and prices of a round.

    Parameters
    ----------
    left_s
        Seconds until the deadline, 0 without one or past it, shape (J,).
    price_of_class
        Dollars per hour of a GPU of each node class, shape (C,).
    """

    left_s: Floats
    price_of_class: Floats


def levels(problem: RoundProblem, data: Bills, params: WorkParams = WORK) -> tuple[Level, ...]:
    """The levels ``slo`` and ``dollar``."""
    jobs, members = problem.jobs, problem.options.members
    owner, least_s = members.job, problem.interval_s
    left_s = data.left_s[owner]
    run_s = np.maximum(least_s, seconds_left(problem, params.restart_weight))
    urgency = 1.0 / np.sqrt(np.maximum(least_s, left_s))
    slo = np.where(seconds_left(problem) <= left_s, urgency / np.sqrt(run_s), 0.0)
    cost = problem.options.priced(data.price_of_class)[members.option] * run_s
    cheapest = np.full(jobs.count, np.inf)
    np.minimum.at(cheapest, owner, cost)
    return (
        Level.of(problem, "slo", "1 / s", slo),
        Level.of(problem, "dollar", "work / s", cheapest[owner] / cost / run_s),
    )
