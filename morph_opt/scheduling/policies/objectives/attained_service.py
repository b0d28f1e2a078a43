"""Objectives ``las`` and ``gittins``: Tiresias' queues as ranked levels of the round MILP."""

from __future__ import annotations

import numpy as np

from formulations.objectives import las
from formulations.objectives.las import Queues
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.policies.published import TIRESIAS
from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex, ServiceBook


class QueuedService(Objective[Queues]):
    """Objective of attained service (2D-LAS), or Gittins index inside the queues, as ranked levels.

    Parameters
    ----------
    name
        Name of the objective.
    limits_gpu_s
        GPU-seconds at which a job leaves a queue; the last queue has no limit.
    starvation_knob
        Starvation knob, 0 for none; see
        `morph_opt.scheduling.policies.tiresias.queues.ServiceBook`.
    index
        Gittins index that orders a queue; None for the order of arrival.
    rigid
        Whether jobs get exactly the requested number of GPUs.
    """

    def __init__(
        self,
        name: str = "las",
        *,
        limits_gpu_s: tuple[float, ...] = TIRESIAS.queue_limits_gpu_s,
        starvation_knob: float = 0.0,
        index: GittinsIndex | None = None,
        rigid: bool = False,
    ) -> None:
        self.name = name
        self._book = ServiceBook(limits_gpu_s, starvation_knob)
        self._index = index
        self._rigid = rigid

    def observe(self, state: RoundState) -> Queues:
        """Return queues and requests of the snapshot; remember promotions, if there are any."""
        book, index = self._book, self._index
        book.observe(state)
        arrival_s = np.asarray([book.arrival_s(s) for s in state.jobs])
        key = arrival_s
        if index is not None:
            now_s = state.time_s
            key = np.asarray([-index.of_job(s, now_s, book.attained_gpu_s(s)) for s in state.jobs])
        return Queues(
            queue=np.asarray([book.queue(s) for s in state.jobs], dtype=np.int64),
            key=key,
            arrival_s=arrival_s,
            gpus=np.asarray([s.job.requested_gpus for s in state.jobs], dtype=np.int64),
        )

    def levels(self, problem: RoundProblem, data: Queues) -> tuple[Level, ...]:
        """Return one level per queue with jobs and, for malleable jobs, one for spare GPUs."""
        return las.levels(problem, data, rigid=self._rigid)
