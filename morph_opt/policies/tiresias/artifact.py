"""``tiresias:*`` with ``--artifact-quirks``: the published code's lists at the engine's boundaries.

The published simulator wakes at events only: an arrival, an end, an instant that it computed for a
change of queue. A boundary at which none of them is due changes nothing. With an interval of 1 s
and no start-up, on nodes that hold every gang, this policy gives the published instants (a test
holds it to the simulator); with longer rounds every event waits for the next boundary.

It has a memory (the order of the lists), so a resumed replay shows it the recorded rounds.
"""

from __future__ import annotations

from collections.abc import Mapping

from morph_opt.domain import JobState, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision
from morph_opt.policies.rigid import _Filling, _Rigid, requested
from morph_opt.policies.tiresias.artifact_lists import (
    Discipline,
    Live,
    QueueLists,
    Quirks,
    RigidRule,
)
from morph_opt.policies.tiresias.queues import QUEUE_LIMITS_GPU_S, GittinsIndex


class ArtifactQueues(_Rigid):
    """2D-LAS or Gittins-in-queues for rigid jobs, as the published code decides.

    Parameters
    ----------
    belief
        Speeds (only which configurations exist matters).
    limits_gpu_s, starvation_knob, index
        See `morph_opt.policies.tiresias.artifact_lists.RigidRule`.
    quirks
        Defects that are repeated; both by default.
    """

    def __init__(
        self,
        belief: SpeedModel,
        *,
        limits_gpu_s: tuple[float, ...] = QUEUE_LIMITS_GPU_S,
        starvation_knob: float = 0.0,
        index: GittinsIndex | None = None,
        quirks: Quirks | None = None,
    ) -> None:
        super().__init__(belief)
        discipline = Discipline.LAS_GPU if index is None else Discipline.GITTINS
        quirks = quirks or Quirks(late_demotion=True, rounded_index=True)
        self.name = "tiresias:2d-las" if index is None else "tiresias:gittins"
        self._lists = QueueLists(
            RigidRule(discipline, limits_gpu_s, starvation_knob, index, quirks)
        )
        self._by_name: dict[str, Live] = {}
        self._seen_s = -1.0
        self._event = False

    def observe(self, state: RoundState) -> None:
        """See a snapshot, before it is decided; every round, in order."""
        if state.time_s == self._seen_s:
            return
        lists, active = self._lists, {known.job.name: known for known in state.jobs}
        self._catch_up(active)
        self._seen_s = now_s = state.time_s
        stopped = [
            live for live in lists.live
            if live.running and live.name in active and active[live.name].running is None
        ]  # fmt: skip
        due = [live.checked_s + wait for live in lists.live if (wait := lists.until_move(live))]
        changed = active.keys() != self._by_name.keys()
        self._event = changed or bool(stopped) or min(due, default=now_s + 1.0) <= now_s
        if not self._event:
            return
        lists.advance(now_s)
        for live in stopped:
            live.running = False
        for name in [name for name in self._by_name if name not in active]:
            lists.remove(self._by_name.pop(name))
        for name, known in active.items():
            if name not in self._by_name:
                submit_s = int(known.job.submission_s)
                live = Live(name, known.job.requested_gpus, submit_s, now_s, float("inf"))
                self._by_name[name] = live
                lists.add(live)
        lists.move()

    def _catch_up(self, active: Mapping[str, JobState]) -> None:
        """Who ran after the boundary before: whoever runs, was stopped since or is complete.

        From the snapshot and not from `decide`, which a resumed replay does not ask again.
        """
        for live in self._lists.live:
            known = active.get(live.name)
            stop_s = None if known is None else known.last_stop_s
            failed = stop_s is not None and stop_s > self._seen_s
            live.running = known is None or known.running is not None or failed
        if self._event:
            self._lists.dealt()

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.policies.base.Policy`."""
        self.observe(state)
        return super().decide(state)

    def deal(self, filling: _Filling) -> None:
        """Everybody in the order of the lists at an event; otherwise all stay."""
        position = {known.job.name: row for row, known in enumerate(filling.view.states)}
        states = filling.view.states
        if not self._event:
            for row, known in enumerate(states):
                if known.running is not None:
                    filling.keep(row)
            return
        for live in self._lists.order():
            row = position[live.name]
            if states[row].running is None or not filling.keep(row):
                filling.start(row, requested(filling.view, row))
