"""Ties between waiting jobs that are equal but for their arrival: the earlier job is served.

Steps of the ladder and solvers choose among optima in ways of their own. Whatever they chose for
jobs that are equal in everything else, the better choices go to those that arrived earlier, then to
those first by name. This changes no value, demand or row, so that bounds and placements stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from formulations.round.rules import broken_rule
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.core.domain import JobState
from morph_opt.scheduling.decision.pose import PosedRound


def earlier_first(posed: PosedRound, levels: Sequence[Level], selection: Selection) -> Selection:
    """Return the decision in which earlier jobs have the better choices of equal jobs.

    Parameters
    ----------
    levels
        Goals that the decision was made by; jobs are equal only if all of these say so.
    """
    problem, view = posed.problem, posed.view
    waiting = ~problem.jobs.running
    starts = waiting & (selection.choice != NONE)
    if not starts.any() or problem.shared.count:
        return selection
    # Few jobs have as much work left as one that starts: only these are compared.
    left = problem.jobs.iterations_left
    like = np.flatnonzero(waiting & np.isin(left, left[starts]))
    if like.size < 2:
        return selection
    _, kind, count = np.unique(left[like], return_inverse=True, return_counts=True)
    groups: dict[tuple[int, JobState], list[int]] = {}
    for job in like[count[kind] > 1].tolist():
        if view.keeps[job] is None and view.offset[job + 1] > view.offset[job]:
            key = id(view.slices[job]), _but_for_arrival(view.states[job])
            groups.setdefault(key, []).append(job)
    for jobs in groups.values():
        for alike in _of_equal_value(problem, view.offset, levels, jobs):
            selection = _dealt(posed, levels[-1], selection, alike)
    return selection


def _but_for_arrival(state: JobState) -> JobState:
    """Return a job's state without its name, arrival and wait."""
    job = replace(state.job, name="job", submission_s=0.0)
    return replace(state, job=job, queued_s=0.0, last_held=None)


def _of_equal_value(
    problem: RoundProblem, offset: np.ndarray, levels: Sequence[Level], jobs: list[int]
) -> list[list[int]]:
    """Split jobs of one slice into those whose options have equal values and the same nodes."""
    found: dict[bytes, list[int]] = {}
    for job in jobs:
        own = slice(int(offset[job]), int(offset[job + 1]))
        key = problem.candidates.node_set[own].tobytes()
        found.setdefault(key + b"".join(one.value[own].tobytes() for one in levels), []).append(job)
    return [alike for alike in found.values() if len(alike) > 1]


def _dealt(posed: PosedRound, level: Level, selection: Selection, jobs: list[int]) -> Selection:
    """Deal the choices of equal jobs out anew, unless an operator's rule names one of them."""
    problem, offset, states = posed.problem, posed.view.offset, posed.view.states
    choice = selection.choice

    def rank(job: int) -> tuple[bool, float, float, int]:
        option = int(choice[job])
        if option == NONE:
            return True, 0.0, 0.0, 0
        gpus = float(problem.candidates.gpus[option])
        return False, -float(level.value[option]), -gpus, option - int(offset[job])

    theirs = sorted(jobs, key=rank)
    order = sorted(jobs, key=lambda job: (states[job].job.submission_s, states[job].job.name))
    if [rank(job) for job in order] == [rank(job) for job in theirs]:
        return selection
    dealt, nodes = choice.copy(), list(selection.nodes)
    for job, other in zip(order, theirs, strict=True):
        option = int(choice[other])
        dealt[job] = NONE if option == NONE else option - int(offset[other]) + int(offset[job])
        nodes[job] = selection.nodes[other]
    found = Selection(dealt, tuple(nodes))
    return selection if broken_rule(problem, found) is not None else found
