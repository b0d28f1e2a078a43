"""From a selection (jobs and nodes as indices) to an allocation with GPUs by number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from formulations.round.tables import Selection
from morph_opt.candidates.table import RoundView
from morph_opt.decision.pose import PosedRound
from morph_opt.domain import Allocation, Assignment, Cluster, Placement, RoundState


def place(posed: PosedRound, selection: Selection) -> Allocation:
    """The allocation that a decision of a posed round means; see `to_allocation`."""
    return to_allocation(posed.state, posed.view, selection)


def to_allocation(state: RoundState, view: RoundView, selection: Selection) -> Allocation:
    """The allocation that a selection means; staying jobs keep their very GPUs.

    New parts take the lowest-numbered free GPUs of their node, those of jobs that come back to
    nodes that are named as well. Where a job starts in the same
    plan on the same nodes with the same counts as it runs now, it is a stay and keeps its GPUs.
    Both jobs of a pair get the same GPUs, in place those of the first, and name each other.

    Raises
    ------
    ValueError
        If an option of three jobs or more is chosen: an assignment names one partner.
    """
    problem = view.problem
    choice = selection.choice.tolist()
    members, options = problem.options.members, problem.options
    decided = np.flatnonzero(selection.choice >= 0)
    with_others = decided[options.shared[selection.choice[decided]]].tolist()
    together = {job: options.jobs_of(choice[job]) for job in with_others}
    name: list[str | None] = [None] * len(choice)
    for job, jobs in together.items():
        if len(jobs) > 2:
            raise ValueError(f"option {choice[job]} is of {len(jobs)} jobs, allocations know pairs")
        name[job] = next(view.states[other].job.name for other in jobs if other != job)
    rows = members.chosen(selection.choice)
    stays = np.zeros(len(choice), dtype=bool)
    stays[members.job[rows]] = ~members.starts[rows]
    kept: list[Assignment | None] = [None] * len(choice)
    spots = selection.nodes
    if problem.returns.options:
        spots = tuple(
            own or problem.named_nodes(picked) for own, picked in zip(spots, choice, strict=True)
        )
    # Who keeps GPUs takes them before anybody who starts is given any: first all that is kept.
    taken: dict[int, set[int]] = {node: set() for nodes_of in spots for node in nodes_of}
    for job, picked in enumerate(choice):
        running = view.states[job].running
        same = picked >= 0 and name[job] is None and not stays[job]
        if running is not None and (stays[job] or (same and _same(view, selection, job, running))):
            as_it_is = running.partner == name[job]
            kept[job] = running if as_it_is else replace(running, partner=name[job])
            for node, gpus in running.placement.parts:
                if node in taken:
                    taken[node].update(gpus)
    assignments: list[Assignment] = []
    made: dict[int, Assignment] = {}
    for job, picked in enumerate(choice):
        if kept[job] is not None:
            assignments.append(kept[job])  # type: ignore[arg-type]
            continue
        if picked < 0:
            continue
        # Who shares an option gets what the first of them was given; in place, what its host keeps.
        host = made.get(picked) or kept[together.get(job, [job])[0]]
        if host is not None:
            plan = view.configuration(job, picked).plan
            assignments.append(
                Assignment(view.states[job].job.name, plan, host.placement, host.job)
            )
            continue
        there = _granted(state.cluster, problem.parts_of(picked), spots[job], taken)
        plan = view.configuration(job, picked).plan
        made[picked] = Assignment(view.states[job].job.name, plan, there, name[job])
        assignments.append(made[picked])
    return Allocation(tuple(assignments))


def _granted(
    cluster: Cluster, counts: Iterable[int], spots: Iterable[int], taken: dict[int, set[int]]
) -> Placement:
    """The lowest-numbered free GPUs of the nodes that parts are on; they are taken from then on."""
    parts: dict[int, list[int]] = {}
    for count, node in zip(counts, spots, strict=True):
        used = taken[node]
        free = [gpu for gpu in range(cluster.nodes[node].type.gpus) if gpu not in used][:count]
        used.update(free)
        parts.setdefault(node, []).extend(free)
    return Placement.of(parts)


def _same(view: RoundView, selection: Selection, job: int, running: Assignment) -> bool:
    candidate = int(selection.choice[job])
    if running.partner is not None:
        return False  # the other one may go on there
    if view.configuration(job, candidate).plan != running.plan:
        return False
    counts: dict[int, int] = {}
    parts = view.problem.options.starts.parts(candidate)
    for node, count in zip(selection.nodes[job], parts, strict=True):
        counts[node] = counts.get(node, 0) + count
    return counts == {node: len(gpus) for node, gpus in running.placement.parts}
