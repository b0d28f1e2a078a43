"""Virtual EASY schedule of all jobs that have arrived: when each would have started under it.

``docs/formulations/due.md`` has the bound that due instants relative to these starts give. The
source of the idea for single servers is Friedman and Henderson, "Fairness and Efficiency in Web
Server Protocols" (SIGMETRICS 2003).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from formulations.arrays import Bools, Floats
from morph_opt.core.domain import InputError, RoundState
from morph_opt.scheduling.backfill.profile import easy_pass
from morph_opt.scheduling.backfill.queue import Free, Running, Waiting

Asked = Callable[[], tuple[Floats, Bools]]
"""Function that returns run times, shape (J,), and usable node types, (J, T), of a round's jobs."""


class Shadow:
    """EASY backfill on a virtual cluster that never fails, with the arrivals of the real one.

    Run times are longer by a start-up and a round: a job that is due starts within a round, and is
    started once more at most. GPUs are counted by node type: a job holds those that it asks for on
    one type. The schedule advances by the states that it is shown, from the first round on, and by
    nothing else.

    Parameters
    ----------
    restart_s
        Seconds of such a start-up.

    Attributes
    ----------
    starts_s
        Virtual start of every job that has one, by name.
    next_end_s
        Next virtual end after the last state; inf if no job waits for it.
    """

    def __init__(self, restart_s: float) -> None:
        self._restart_s = restart_s
        self.starts_s: dict[str, float] = {}
        self.next_end_s = math.inf
        self._names: list[str] = []
        self._known: set[str] = set()
        self._queue: list[Waiting] = []
        self._running: list[Running] = []
        self._capacity: Floats | None = None

    def see(self, state: RoundState, asked: Asked) -> None:
        """Advance to a round and let the jobs that came since the last one queue.

        Parameters
        ----------
        state
            The round.
        asked
            Its jobs' run times, and the node types that can hold them; called only where a job is
            new.

        Raises
        ------
        InputError
            If jobs of the first state have waited or run for longer than a round: what came before
            is unknown.
        """
        if self._capacity is None:
            self._begin(state)
        self._advance(state.time_s)
        fresh = [at for at, one in enumerate(state.jobs) if one.job.name not in self._known]
        if fresh:
            run_s, types = asked()
            run_s = run_s + self._restart_s + state.interval_s
            for at in fresh:
                job = state.jobs[at].job
                self._known.add(job.name)
                allowed = sum(1 << kind for kind in np.flatnonzero(types[at]).tolist())
                demand = (float(job.requested_gpus),)
                number = len(self._names)
                self._names.append(job.name)
                self._queue.append(Waiting(number, 1, demand, float(run_s[at]), allowed))
            self._start(state.time_s)
        ends_s = (one.end_s for one in self._running)
        self.next_end_s = min(ends_s, default=math.inf) if self._queue else math.inf

    def _begin(self, state: RoundState) -> None:
        first_s = state.interval_s
        if any(one.queued_s + one.executed_s > first_s or one.starts for one in state.jobs):
            rule = "needs every round since the first, and these jobs have a past"
            raise InputError(rule, field="start_by.no_later_than")
        kinds = state.cluster.node_types
        gpus = [sum(n.type.gpus for n in state.cluster.nodes if n.type == kind) for kind in kinds]
        self._capacity = np.asarray(gpus, dtype=np.float64).reshape(-1, 1)

    def _advance(self, to_s: float) -> None:
        """Let virtual jobs end, and others start at these instants, up to an instant."""
        while self._running:
            end_s = min(one.end_s for one in self._running)
            if end_s > to_s:
                return
            self._running = [one for one in self._running if one.end_s > end_s]
            if self._queue:
                self._start(end_s)

    def _start(self, now_s: float) -> None:
        assert self._capacity is not None
        free = Free(self._capacity)
        for one in self._running:
            free.take(one.nodes, one.demand)
        started, _ = easy_pass(now_s, self._queue, free, self._running)
        places = {one.job: one.nodes for one in started}
        for asked in self._queue:
            if asked.job in places:
                end_s = now_s + asked.limit_s
                self._running.append(Running(asked.job, end_s, places[asked.job], asked.demand))
                self.starts_s[self._names[asked.job]] = now_s
        self._queue = [asked for asked in self._queue if asked.job not in places]
