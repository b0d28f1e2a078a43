"""Objective `cost`: keep the SLOs, then do the most work per dollar; ``docs/formulations/cost.md``.

Let n be the seconds to a job's completion in a configuration, its start-up counted
`WorkParams.restart_weight` times.

Level **slo**: the value of a job with an SLO is ``1 / sqrt(n l)`` in a configuration that completes
it in the l seconds before the deadline, and 0 in a slower one. This is the geometric mean of
shortest first (1 / n) and earliest deadline first (1 / l); it grows as a job progresses, so jobs do
not take turns.

Level **dollar**: ``(m / k) / n``, with k the cost of the configuration until completion and m that
of the job's cheapest one: work per second, reduced where it is expensive.
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
    """Return the levels ``slo`` and ``dollar``."""
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
