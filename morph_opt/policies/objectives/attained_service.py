"""Objectives ``las`` and ``gittins``: Tiresias' queues as ranked levels of the round MILP.

Level k is queue k: the service of its jobs, each counted up to the speed of its request, in order
of arrival. A lower queue never costs a higher one anything: the levels are ranked, there is no
weight that could flip. The last level gives what is left to everybody (malleable jobs only).

Preemption is priced inside every level: a start is worth its speed times H / (H + restart).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from formulations.objectives import relative_speed
from formulations.round_problem import Level, RoundProblem
from morph_opt.domain import InputError, RoundState
from morph_opt.policies.tiresias.queues import (
    QUEUE_LIMITS_GPU_S,
    GittinsIndex,
    ServiceBook,
)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

AMORTISE_S = 600.0
"""Seconds of service that a start-up is charged to."""

_FORBIDDEN = -1.0
"""Value of a configuration that a rigid job may not take: leaving it out is always better."""


class QueuedService:
    """2D-LAS, or Gittins index inside the queues, as ranked levels.

    Parameters
    ----------
    name
        Word of the objective.
    limits_gpu_s
        GPU-seconds at which a job leaves a queue; the last queue has no limit.
    knob
        Starvation knob, 0 for none; see `morph_opt.policies.tiresias.queues.ServiceBook`.
    index
        Order inside a queue by this index instead of arrival.
    rigid
        Only the requested number of GPUs counts.
    amortise_s
        See `AMORTISE_S`.
    """

    def __init__(
        self,
        name: str = "las",
        *,
        limits_gpu_s: tuple[float, ...] = QUEUE_LIMITS_GPU_S,
        knob: float = 0.0,
        index: GittinsIndex | None = None,
        rigid: bool = False,
        amortise_s: float = AMORTISE_S,
    ) -> None:
        if not amortise_s > 0:
            raise InputError("amortise_s must be above 0", field=name)
        self.name = name
        self._book = ServiceBook(limits_gpu_s, knob)
        self._index = index
        self._rigid = rigid
        self._amortise_s = amortise_s
        self._queue = np.zeros(0, dtype=np.int64)
        self._gpus = np.zeros(0, dtype=np.int64)
        self._arrival_s: Floats = np.zeros(0)
        self._key: Floats = np.zeros(0)

    def observe(self, state: RoundState) -> None:
        """Take queues and requests from the snapshot; with a knob, promotions are remembered."""
        book = self._book
        book.observe(state)
        self._queue = np.asarray([book.queue(s) for s in state.jobs], dtype=np.int64)
        self._arrival_s = np.asarray([book.arrival_s(s) for s in state.jobs])
        self._key = self._arrival_s
        if self._index is not None:
            of_job, now_s = self._index.of_job, state.time_s
            self._key = np.asarray([-of_job(s, now_s, book.attained_gpu_s(s)) for s in state.jobs])
        self._gpus = np.asarray([s.job.requested_gpus for s in state.jobs], dtype=np.int64)

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """One level per queue that has jobs, then, for malleable jobs, the rest.

        Raises
        ------
        ValueError
            If the problem is not of the snapshot that was observed last.
        """
        jobs, owner = problem.jobs, problem.candidates.job
        if self._queue.size != jobs.count:
            raise ValueError("the objective has not observed this round")
        started, stayed = relative_speed(problem)
        moved = (self._amortise_s / (self._amortise_s + jobs.restart_s))[owner]
        kept = self._amortise_s / (self._amortise_s + jobs.restart_left_s)
        rank = self._rank()
        barred = ~self._requested(problem) if self._rigid else np.zeros(owner.size, dtype=bool)
        levels = []
        for queue in np.unique(self._queue).tolist():
            mine = self._queue == queue
            value = np.where(mine[owner], rank[owner] * np.minimum(1.0, started) * moved, 0.0)
            stay = np.where(mine, rank * np.minimum(1.0, stayed) * kept, 0.0)
            levels.append(
                Level(
                    f"queue {queue}", "requested speeds", np.where(barred, _FORBIDDEN, value), stay
                )
            )
        if not self._rigid:
            levels.append(Level("spare", "normalised speed", started * moved, stayed * kept))
        return tuple(levels)

    def _rank(self) -> Floats:
        """Weight inside a queue, from 2 for the first to just above 1 for the last, shape (J,)."""
        order = np.lexsort((self._arrival_s, self._key, self._queue))
        weight = np.zeros(self._queue.size)
        for queue in np.unique(self._queue).tolist():
            mine = order[self._queue[order] == queue]
            weight[mine] = 2.0 - np.arange(mine.size) / mine.size
        return weight

    def _requested(self, problem: RoundProblem) -> Bools:
        """Candidates on the requested number of GPUs, or the nearest that there is."""
        owner, gpus = problem.candidates.job, problem.candidates.gpus
        off = np.abs(gpus - self._gpus[owner]).astype(np.float64)
        least = np.full(problem.jobs.count, np.inf)
        np.minimum.at(least, owner, off)
        return np.asarray(off == least[owner])
