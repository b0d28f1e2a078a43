"""Tiresias' queues as ranked levels of the round; page ``docs/formulations/las.md``.

Each queue is a level: the service of its jobs, counted up to the speed of their requests, in order
of arrival or of another key (``gittins.md``). A lower queue never reduces a higher one: levels are
ranked, not weighted. The last level gives remaining GPUs to all jobs (malleable jobs only).

Preemption is priced inside every level: a start is worth its speed times H / (H + restart).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.objectives import relative_speed
from formulations.parameters import SERVICE, ServiceParams
from formulations.round.tables import Level, RoundProblem


@dataclass(frozen=True, slots=True)
class Queues:
    """Queue and order of each job.

    Parameters
    ----------
    queue
        Queue of each job, 0 first, shape (J,).
    key, arrival_s
        Sort key within a queue, ascending, and arrival, which breaks ties; shapes (J,).
    gpus
        Requested GPUs, shape (J,).
    """

    queue: Ints
    key: Floats
    arrival_s: Floats
    gpus: Ints


def levels(
    problem: RoundProblem, data: Queues, *, rigid: bool = False, params: ServiceParams = SERVICE
) -> tuple[Level, ...]:
    """Return one level per queue with jobs and, for malleable jobs, one for the rest.

    Parameters
    ----------
    rigid
        Whether jobs may start on the requested number of GPUs only.
    params
        Seconds of service that a start-up is charged to.
    """
    members = problem.options.members
    speed = relative_speed(problem)
    mean = params.amortise_s / (params.amortise_s + members.startup_s)
    served = _rank(data)[members.job] * np.minimum(1.0, speed) * mean
    barred = _barred(problem, data.gpus) if rigid else np.zeros(speed.size, dtype=bool)
    found = []
    for queue in np.unique(data.queue).tolist():
        worth = np.where(data.queue[members.job] == queue, served, 0.0)
        # Below 0, so that every decision gains by not taking a barred configuration.
        worth = np.where(barred, -1.0, worth)
        found.append(Level.of(problem, f"queue {queue}", "requested speeds", worth))
    if not rigid:
        found.append(Level.of(problem, "spare", "normalised speed", speed * mean))
    return tuple(found)


def _rank(data: Queues) -> Floats:
    """Return weights within a queue, from 2 (first) to just above 1 (last), shape (J,)."""
    order = np.lexsort((data.arrival_s, data.key, data.queue))
    weight = np.zeros(data.queue.size)
    for queue in np.unique(data.queue).tolist():
        mine = order[data.queue[order] == queue]
        weight[mine] = 2.0 - np.arange(mine.size) / mine.size
    return weight


def _barred(problem: RoundProblem, asked: Ints) -> Bools:
    """Return the starts whose GPU count is neither the requested nor the nearest possible one."""
    options, members = problem.options, problem.options.members
    off = np.abs(options.gpus[members.option] - asked[members.job])
    off = np.where(members.starts, off, np.inf)
    least = np.full(problem.jobs.count, np.inf)
    np.minimum.at(least, members.job, off)
    return np.asarray(members.starts & (off != least[members.job]))
