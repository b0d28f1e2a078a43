"""Baselines in the same engine: rigid gangs at the user's request, and an equal split.

A rigid job runs in its requested plan on its requested number of GPUs, in the tightest shape
that its nodes' free GPUs allow, and is never moved once it runs, unless its policy preempts.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np

from formulations.round.check import check
from formulations.round.decode import SLACK, place_parts, room_after_stays
from formulations.round.tables import NONE, RoundProblem, Selection
from morph_opt.candidates.table import CandidateBuilder, RoundView
from morph_opt.decision.placement import to_allocation
from morph_opt.domain import RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision, RoundReport


class _Filling:
    """Mutable free capacity of a round while a baseline deals it out, job by job."""

    def __init__(self, view: RoundView) -> None:
        self.problem: RoundProblem = view.problem
        self.view = view
        jobs = view.problem.jobs.count
        self.choice = np.full(jobs, NONE, dtype=np.int64)
        self.spots: list[tuple[int, ...]] = [()] * jobs
        self.room = room_after_stays(view.problem, self.choice)
        holds, nodes = view.problem.holds, view.problem.nodes
        self._first = np.searchsorted(holds.job, np.arange(jobs + 1)).tolist()
        self._node: list[int] = holds.node.tolist()
        self._open: list[bool] = nodes.open[holds.node].tolist()
        self._leaf: list[int] = nodes.leaf[holds.node].tolist()
        self._uplink: list[float] = holds.uplink_gb_per_s.tolist()
        self._least = holds.demand - SLACK
        # What runs fits together, but for jobs that share GPUs, until something comes to its nodes.
        self._changed = np.full(nodes.count, view.problem.shared.gang.size > 0).tolist()
        self._stay: list[int] = view.problem.options.stay.tolist()

    def keep(self, job: int) -> bool:
        """Let a running job stay if what it holds is still free."""
        room, demand = self.room, self.problem.holds.demand
        rows = range(self._first[job], self._first[job + 1])
        carried: dict[int, float] = {}
        for row in rows:
            # A drained node offers nothing, but whoever runs there may stay.
            node = self._node[row]
            if (
                self._changed[node]
                and self._open[row]
                and not (room.nodes[node] >= self._least[row]).all()
            ):
                return False
            if self._uplink[row]:
                leaf = self._leaf[row]
                carried[leaf] = carried.get(leaf, 0.0) + self._uplink[row]
        if any(share > room.uplinks[leaf] + SLACK for leaf, share in carried.items()):
            return False
        for row in rows:
            room.nodes[self._node[row]] -= demand[row]
        for leaf, share in carried.items():
            room.uplinks[leaf] -= share
        self.choice[job] = self._stay[job]
        return True

    def start(self, job: int, candidates: Iterable[int]) -> bool:
        """Start a job in the first of these candidates that fits."""
        for candidate in candidates:
            found = place_parts(self.problem, candidate, self.room)
            if found is not None:
                self.choice[job] = candidate
                self.spots[job] = found
                for node in found:
                    self._changed[node] = True
                return True
        return False

    def selection(self) -> Selection:
        """What was dealt out."""
        return Selection(self.choice, tuple(self.spots))


class _Baseline(ABC):
    """Shared frame: tables, a dealing rule, the same check as for the MILP."""

    name = "baseline"

    stays_put = False
    """Whether jobs that all run stay where they are, as long as nothing happens."""

    timeless = False
    """Whether decisions do not depend on the clock, nor on what time changes of a job."""

    def __init__(self, belief: SpeedModel, *, requests_only: bool = False) -> None:
        self._builder = CandidateBuilder(belief, prune=False, requests_only=requests_only)

    @property
    def remembers(self) -> bool:
        """Whether a decision depends on more than the state."""
        return hasattr(self, "observe")

    @abstractmethod
    def deal(self, filling: _Filling) -> None:
        """Decide every job through ``filling``."""

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
        return Decision(allocation, report, stands=self._stands(view.problem, selection))

    def _stands(self, problem: RoundProblem, selection: Selection) -> bool:
        """See `Decision`: everybody runs on, or nobody who waits can, whatever the time is."""
        running = problem.jobs.running
        if problem.shared.count or (selection.choice != problem.options.stay)[running].any():
            return False
        waits = not running.all()
        starts = waits and bool((selection.choice[~running] != NONE).any())
        return not starts and (self.timeless or (self.stays_put and not waits))


class _Rigid(_Baseline):
    """Jobs run as they asked to, so they are offered nothing else (`requested`)."""

    def __init__(self, belief: SpeedModel) -> None:
        super().__init__(belief, requests_only=True)


def requested(view: RoundView, job: int) -> range:
    """Candidates of a job where only its request is offered, the fastest shape first."""
    return range(int(view.offset[job]), int(view.offset[job + 1]))


class Fifo(_Rigid):
    """First come, first served, rigid, never preempting.

    Parameters
    ----------
    belief
        Speeds (only which configurations exist matters).
    skip_blocked
        Whether later jobs may pass a blocked head of the queue (backfilling without
        reservations). Without it the head blocks everybody behind it.
    """

    timeless = True

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


class Srtf(_Rigid):
    """Shortest remaining GPU-time first, rigid, preemptive; blocked jobs are skipped.

    Remaining GPU-time is GPUs x (start-up left + remaining iterations x iteration time) in the
    configuration that runs, or that of the request.
    """

    name = "srtf"
    stays_put = True

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

    The share is the number of open GPUs divided by the number of active jobs, at least 1. A job
    whose smallest configuration is larger may have that. A running job that holds between half
    its limit and its limit stays, so that an arrival does not restart everybody; the others take,
    in order of submission, their fastest configuration within the limit that fits. A running job
    for which nothing fits keeps what it has if that is still free.
    """

    name = "equal_split"
    timeless = True

    def deal(self, filling: _Filling) -> None:
        """Stays within the limit first, then everybody else in order of submission."""
        problem, view = filling.problem, filling.view
        jobs, table, nodes = problem.jobs, problem.candidates, problem.nodes
        total = float(nodes.capacity[nodes.node_class, 0][nodes.open].sum())
        share = max(1, int(total // max(1, jobs.count)))
        held = np.bincount(problem.holds.job, problem.holds.demand[:, 0], minlength=jobs.count)
        own = [range(int(view.offset[j]), int(view.offset[j + 1])) for j in range(jobs.count)]
        limit = [max(share, min((int(table.gpus[k]) for k in mine), default=0)) for mine in own]
        for job in np.flatnonzero(jobs.running).tolist():
            if limit[job] / 2 <= held[job] <= limit[job]:
                filling.keep(job)
        for job in np.flatnonzero(filling.choice == NONE).tolist():
            fitting = [k for k in own[job] if table.gpus[k] <= limit[job]]
            fitting.sort(key=lambda k: (float(table.iteration_s[k]), k))
            if not filling.start(job, fitting) and jobs.running[job]:
                filling.keep(job)
