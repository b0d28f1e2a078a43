"""Tiresias' queues as ranked levels of the round; page ``docs/formulations/las.md``.

Level k is queue k: the service of its jobs, each counted up to the speed of its request, in order
of arrival or of another key (``gittins.md``). A lower queue never costs a higher one anything: the
levels are ranked, there is no weight that could flip. The last level gives what is left to
everybody (malleable jobs only).

Preemption is priced inside every level: a start is worth its speed times H / (H + restart).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.linear_model import Bools, Floats, Ints
from formulations.objectives import relative_speed
from formulations.round.tables import Level, RoundProblem

AMORTISE_S = 600.0
"""Seconds of service that a start-up is charged to."""

_FORBIDDEN = -1.0
"""Value of a configuration that a rigid job may not take: leaving it out is always better."""


@dataclass(frozen=True, slots=True)
class Queues:
    """Where jobs stand.

    Parameters
    ----------
    queue
        Queue of each job, 0 is served first, shape (J,).
    key, arrival_s
        Order inside a queue, ascending; the arrival breaks ties, shapes (J,).
    gpus
        Requested GPUs, shape (J,).
    """

    queue: Ints
    key: Floats
    arrival_s: Floats
    gpus: Ints


def levels(
    problem: RoundProblem, data: Queues, *, rigid: bool = False, amortise_s: float = AMORTISE_S
) -> tuple[Level, ...]:
    """One level per queue that has jobs, then, for malleable jobs, the rest.

    Parameters
    ----------
    rigid
        Only the requested number of GPUs counts.
    amortise_s
        See `AMORTISE_S`.
    """
    jobs, owner = problem.jobs, problem.candidates.job
    started, stayed = relative_speed(problem)
    moved = (amortise_s / (amortise_s + jobs.restart_s))[owner]
    kept = amortise_s / (amortise_s + jobs.restart_left_s)
    rank = _rank(data)
    barred = ~_requested(problem, data.gpus) if rigid else np.zeros(owner.size, dtype=bool)
    found = []
    for queue in np.unique(data.queue).tolist():
        mine = data.queue == queue
        value = np.where(mine[owner], rank[owner] * np.minimum(1.0, started) * moved, 0.0)
        stay = np.where(mine, rank * np.minimum(1.0, stayed) * kept, 0.0)
        value = np.where(barred, _FORBIDDEN, value)
        found.append(Level(f"queue {queue}", "requested speeds", value, stay))
    if not rigid:
        found.append(Level("spare", "normalised speed", started * moved, stayed * kept))
    return tuple(found)


def _rank(data: Queues) -> Floats:
    """Weight inside a queue, from 2 for the first to just above 1 for the last, shape (J,)."""
    order = np.lexsort((data.arrival_s, data.key, data.queue))
    weight = np.zeros(data.queue.size)
    for queue in np.unique(data.queue).tolist():
        mine = order[data.queue[order] == queue]
        weight[mine] = 2.0 - np.arange(mine.size) / mine.size
    return weight


def _requested(problem: RoundProblem, asked: Ints) -> Bools:
    """Candidates on the requested number of GPUs, or the nearest that there is."""
    owner, gpus = problem.candidates.job, problem.candidates.gpus
    off = np.abs(gpus - asked[owner]).astype(np.float64)
    least = np.full(problem.jobs.count, np.inf)
    np.minimum.at(least, owner, off)
    return np.asarray(off == least[owner])
