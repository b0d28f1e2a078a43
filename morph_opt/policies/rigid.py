"""Baselines in the same engine: rigid gangs at the user's request, and an equal split.

A rigid job runs in its requested plan on its requested number of GPUs, in the tightest shape
that its nodes' free GPUs allow, and is never moved once it runs, unless its policy preempts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np

from formulations.check import check
from formulations.decode import free_after_stays
from formulations.round_problem import NONE, STAY, RoundProblem, Selection
from morph_opt.candidates.table import CandidateBuilder, RoundView
from morph_opt.domain import RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision, RoundReport
from morph_opt.policies.greedy import place_parts
from morph_opt.policies.place import to_allocation


class _Filling:
    """Mutable free capacity of a round while a baseline deals it out, job by job."""

    def __init__(self, view: RoundView) -> None:
        self.problem: RoundProblem = view.problem
        self.view = view
        jobs = view.problem.jobs.count
        self.choice = np.full(jobs, NONE, dtype=np.int64)
        self.spots: list[tuple[int, ...]] = [()] * jobs
        self.free = free_after_stays(view.problem, self.choice)
        holds = view.problem.holds
        order = np.argsort(holds.job, kind="stable")
        cuts = np.searchsorted(holds.job[order], np.arange(jobs + 1))
        self._holds = [order[cuts[j] : cuts[j + 1]] for j in range(jobs)]

    def keep(self, job: int) -> bool:
        """Let a running job stay if what it holds is still free."""
        rows = self._holds[job]
        nodes, demand = self.problem.holds.node[rows], self.problem.holds.demand[rows]
        closed = ~self.problem.nodes.open[nodes]
        if not ((self.free[nodes] >= demand - 1e-9).all(axis=1) | closed).all():
            return False
        self.free[nodes] -= demand
        self.choice[job] = STAY
        return True

    def start(self, job: int, candidates: Iterable[int]) -> bool:
        """Start a job in the first of these candidates that fits."""
        nodes, table = self.problem.nodes, self.problem.candidates
        for candidate in candidates:
            usable = nodes.open & (nodes.node_class == table.node_class[candidate])
            found = place_parts(self.problem, candidate, self.free, usable)
            if found is not None:
                self.choice[job] = candidate
                self.spots[job] = found
                return True
        return False

    def selection(self) -> Selection:
        """What was dealt out."""
        return Selection(self.choice, tuple(self.spots))


class _Baseline:
    """Shared frame: tables, a dealing rule, the same check as for the MILP."""

    name = "baseline"

    def __init__(self, belief: SpeedModel) -> None:
        self._builder = CandidateBuilder(belief, prune=False)

    def deal(self, filling: _Filling) -> None:
        """Decide every job through ``filling``; defined by each baseline."""
        raise TypeError(f"{type(self).__name__} deals nothing")

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.policies.base.Policy`."""
        began = time.perf_counter()
        view = self._builder.view(state)
        prepared = time.perf_counter()
        filling = _Filling(view)
        self.deal(filling)
        selection = filling.selection()
        allocation = to_allocation(state, view, selection)
        placed = time.perf_counter()
        check(view.problem, selection)
        report = RoundReport(
            "heuristic" if state.jobs else "idle",
            candidates=view.problem.candidates.count,
            candidates_ms=1e3 * (prepared - began),
            place_ms=1e3 * (placed - prepared),
            check_ms=1e3 * (time.perf_counter() - placed),
        )
        return Decision(allocation, report)


def requested(view: RoundView, job: int) -> list[int]:
    """Candidates that are the job's request, fastest shape first.

    Where no configuration matches the requested plan on that many GPUs (the published traces
    have such rows), any plan on that many GPUs counts, then the fastest of all.
    """
    first, last = int(view.offset[job]), int(view.offset[job + 1])
    asked = view.states[job].job
    table = view.problem.candidates
    indices = list(range(first, last))
    same_count = [k for k in indices if table.gpus[k] == asked.requested_gpus]
    same_plan = [k for k in same_count if view.configuration(job, k).plan == asked.requested_plan]
    chosen = same_plan or same_count or indices
    return sorted(chosen, key=lambda k: (float(table.iteration_s[k]), k))


class Fifo(_Baseline):
    """First come, first served, rigid, never preempting.

    Parameters
    ----------
    belief
        Speeds (only which configurations exist matters).
    skip_blocked
        Whether later jobs may pass a blocked head of the queue (backfilling without
        reservations). Without it the head blocks everybody behind it.
    """

    def __init__(self, belief: SpeedModel, *, skip_blocked: bool = False) -> None:
        super().__init__(belief)
        self._skip = skip_blocked
        self.name = "fifo:skip" if skip_blocked else "fifo"

    def deal(self, filling: _Filling) -> None:
        """Running jobs stay; then the queue in order of submission."""
        running = filling.problem.jobs.running
        for job in np.flatnonzero(running).tolist():
            filling.keep(job)
        for job in np.flatnonzero(~running).tolist():
            if not filling.start(job, requested(filling.view, job)) and not self._skip:
                return


class Srtf(_Baseline):
    """Shortest remaining GPU-time first, rigid, preemptive; blocked jobs are skipped.

    Remaining GPU-time is GPUs x (start-up left + remaining iterations x iteration time) in the
    configuration that runs, or that of the request.
    """

    name = "srtf"

    def deal(self, filling: _Filling) -> None:
        """All GPUs are dealt out again in order of remaining GPU-time; who can stays put."""
        view, problem = filling.view, filling.problem
        jobs = problem.jobs
        asked = [requested(view, job) for job in range(jobs.count)]

        def remaining(job: int) -> tuple[float, int]:
            left = float(jobs.iterations_left[job])
            gpus = view.states[job].job.requested_gpus
            if jobs.running[job]:
                seconds = float(jobs.restart_left_s[job]) + left * float(jobs.stay_iteration_s[job])
                return gpus * seconds, job
            pace = float(problem.candidates.iteration_s[asked[job][0]]) if asked[job] else np.inf
            return gpus * (float(jobs.restart_s[job]) + left * pace), job

        for job in sorted(range(jobs.count), key=remaining):
            if not (jobs.running[job] and filling.keep(job)):
                filling.start(job, asked[job])


class EqualSplit(_Baseline):
    """Every active job gets the same number of GPUs, as far as its configurations allow.

    The share is the cluster's open GPUs divided by the active jobs, at least 1. In order of
    submission every job takes its fastest configuration of at most that many GPUs that fits; a
    job that runs with no more than its share and no less than half of it stays, so that an
    arrival does not restart everybody.
    """

    name = "equal_split"

    def deal(self, filling: _Filling) -> None:
        """Running jobs within their share stay; the others restart within it; rest in order."""
        problem, view = filling.problem, filling.view
        jobs, table = problem.jobs, problem.candidates
        nodes = problem.nodes
        total = float(nodes.capacity[nodes.node_class, 0][nodes.open].sum())
        share = max(1, int(total // max(1, jobs.count)))
        held = np.zeros(jobs.count)
        np.add.at(held, problem.holds.job, problem.holds.demand[:, 0])
        for job in np.flatnonzero(jobs.running).tolist():
            if share / 2 <= held[job] <= share:
                filling.keep(job)
        for limit in (share, None):
            for job in np.flatnonzero(filling.choice == NONE).tolist():
                mine = range(int(view.offset[job]), int(view.offset[job + 1]))
                fewest = min((int(table.gpus[k]) for k in mine), default=0)
                cap = share if limit is not None else max(share, fewest)
                fitting = [k for k in mine if table.gpus[k] <= cap]
                fitting.sort(key=lambda k: (float(table.iteration_s[k]), k))
                if jobs.running[job] and limit is None and filling.keep(job):
                    continue
                filling.start(job, fitting)
