"""Baselines of rigid gangs at the user's request, and an equal split.

A rigid job runs in its requested plan on its requested number of GPUs, in the tightest shape
that its nodes' free GPUs allow, and is never moved once it runs, unless its policy preempts.
"""

from __future__ import annotations

import numpy as np

from formulations.round.tables import NONE
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.filling import Filling, FillingPolicy


class Fifo(FillingPolicy):
    """First come, first served, rigid, never preempting.

    Parameters
    ----------
    belief
        Speeds (only which configurations exist matters).
    skip_blocked
        Whether later jobs may pass a blocked head of the queue (backfilling without reservations).
        Without it the head blocks all later jobs.
    """

    timeless = True

    def __init__(self, belief: SpeedModel, *, skip_blocked: bool = False) -> None:
        super().__init__(belief)
        self._skip = skip_blocked
        self.name = "fifo:skip" if skip_blocked else "fifo"

    def fill(self, filling: Filling) -> None:
        """Keep running jobs, then start the queue in order of submission."""
        for job in filling.running:
            filling.keep(job)
        for job in filling.waiting:
            if not filling.start(job) and not self._skip:
                return


class Srtf(FillingPolicy):
    """Shortest remaining GPU-time first, rigid, preemptive; blocked jobs are skipped.

    Remaining GPU-time is GPUs x (start-up left + remaining iterations x iteration time) in the
    configuration that runs, or in the requested one.
    """

    name = "srtf"
    stays_put = True

    def fill(self, filling: Filling) -> None:
        """Assign all GPUs anew by remaining GPU-time; running jobs stay in place if they can."""
        jobs, table = filling.problem.jobs, filling.problem.candidates

        def remaining(job: int) -> tuple[float, int]:
            left = float(jobs.iterations_left[job])
            gpus = filling.states[job].job.requested_gpus
            if jobs.running[job]:
                seconds = float(jobs.restart_left_s[job]) + left * float(jobs.stay_iteration_s[job])
                return gpus * seconds, job
            asked = filling.candidates(job)
            pace = float(table.iteration_s[asked[0]]) if asked else np.inf
            return gpus * (float(jobs.restart_s[job]) + left * pace), job

        for job in sorted(range(jobs.count), key=remaining):
            if not (jobs.running[job] and filling.keep(job)):
                filling.start(job)


class EqualSplit(FillingPolicy):
    """Equal number of GPUs for every active job, as far as its configurations allow.

    The share is the number of open GPUs divided by the number of active jobs, at least 1. A job
    whose smallest configuration is larger may have that. A running job that holds between half
    its limit and its limit stays, so that an arrival does not restart all jobs; the others take,
    in order of submission, their fastest configuration within the limit that fits. A running job
    for which nothing fits keeps what it has if that is still free.
    """

    name = "equal_split"
    requests_only = False
    timeless = True

    def fill(self, filling: Filling) -> None:
        """Keep jobs within the limit, then place all others in order of submission."""
        problem = filling.problem
        jobs, table, nodes = problem.jobs, problem.candidates, problem.nodes
        total = float(nodes.capacity[nodes.node_class, 0][nodes.open].sum())
        share = max(1, int(total // max(1, jobs.count)))
        held = np.bincount(problem.holds.job, problem.holds.demand[:, 0], minlength=jobs.count)
        own = [filling.candidates(job) for job in range(jobs.count)]
        limit = [max(share, min((int(table.gpus[k]) for k in mine), default=0)) for mine in own]
        for job in filling.running:
            if limit[job] / 2 <= held[job] <= limit[job]:
                filling.keep(job)
        for job in np.flatnonzero(filling.choice == NONE).tolist():
            fitting = [k for k in own[job] if table.gpus[k] <= limit[job]]
            fitting.sort(key=lambda k: (float(table.iteration_s[k]), k))
            if not filling.start(job, fitting) and jobs.running[job]:
                filling.keep(job)
