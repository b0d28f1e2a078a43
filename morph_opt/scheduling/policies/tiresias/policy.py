"""Tiresias in the round engine: rigid gangs, queues by attained service, preemptive.

All GPUs are assigned anew at every boundary from the top queue down; in a queue running jobs
come before waiting ones, first come first served (``tiresias:2d-las``) or highest Gittins index
first (``tiresias:gittins``); what does not fit is skipped. The published event-driven simulator
is `benchmarks.published.simulators.tiresias`.
"""

from __future__ import annotations

from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.filling import Filling, FillingPolicy
from morph_opt.scheduling.policies.published import TIRESIAS
from morph_opt.scheduling.policies.tiresias.queues import GittinsIndex, ServiceBook


class RigidQueues(FillingPolicy):
    """Policy of 2D-LAS or Gittins-in-queues for rigid jobs.

    Parameters
    ----------
    belief
        Speeds (only which configurations exist matters).
    limits_gpu_s, starvation_knob
        See `morph_opt.scheduling.policies.tiresias.queues.ServiceBook`.
    index
        Gittins index that orders a queue; None for running jobs first, then arrival.
    """

    stays_put = True

    def __init__(
        self,
        belief: SpeedModel,
        *,
        limits_gpu_s: tuple[float, ...] = TIRESIAS.queue_limits_gpu_s,
        starvation_knob: float = 0.0,
        index: GittinsIndex | None = None,
    ) -> None:
        super().__init__(belief)
        self._book = ServiceBook(limits_gpu_s, starvation_knob)
        self._index = index
        self._now_s = 0.0
        self.name = "tiresias:2d-las" if index is None else "tiresias:gittins"

    @property
    def remembers(self) -> bool:
        """Whether decisions depend on earlier rounds: with a starvation knob."""
        return self._book.remembers

    def observe(self, state: RoundState) -> None:
        """See a snapshot; called every round, in order."""
        self._book.observe(state)

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        self.observe(state)
        self._now_s = state.time_s
        return super().decide(state)

    def fill(self, filling: Filling) -> None:
        """Place all jobs from the top queue down; running jobs stay in place if they can."""
        states = filling.view.states

        def place(job: int) -> tuple[float, float, float]:
            state = states[job]
            queue, arrival_s = self._book.queue(state), self._book.arrival_s(state)
            if self._index is not None:
                attained_gpu_s = self._book.attained_gpu_s(state)
                return queue, -self._index.of_job(state, self._now_s, attained_gpu_s), arrival_s
            return queue, float(state.running is None), arrival_s

        for job in sorted(range(len(states)), key=place):
            if states[job].running is None or not filling.keep(job):
                filling.start(job, filling.candidates(job))
