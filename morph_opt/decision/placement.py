"""From a selection (jobs and nodes as indices) to an allocation with GPUs by number."""

from __future__ import annotations

from dataclasses import replace

from formulations.round.options import partner_of
from formulations.round.tables import NONE, STAY, RoundProblem, Selection
from morph_opt.candidates.table import RoundView
from morph_opt.decision.pose import PosedRound
from morph_opt.domain import Allocation, Assignment, Placement, RoundState


def place(posed: PosedRound, selection: Selection) -> Allocation:
    """The allocation that a decision of a posed round means; see `to_allocation`."""
    return to_allocation(posed.state, posed.view, selection)


def to_allocation(state: RoundState, view: RoundView, selection: Selection) -> Allocation:
    """The allocation that a selection means; staying jobs keep their very GPUs.

    New parts take the lowest-numbered free GPUs of their node. Where a job starts in the same
    plan on the same nodes with the same counts as it runs now, it is a stay and keeps its GPUs.
    Both jobs of a pair get the same GPUs, in place those of the first, and name each other.
    """
    nodes = state.cluster.nodes
    problem = view.problem
    choice = selection.choice.tolist()
    partner = [NONE if k < 0 else partner_of(problem, k, job) for job, k in enumerate(choice)]
    name = [None if other < 0 else view.states[other].job.name for other in partner]
    kept: list[Assignment | None] = [None] * len(choice)
    taken: dict[int, set[int]] = {}
    for job, picked in enumerate(choice):
        running = view.states[job].running
        if running is not None and (
            picked == STAY
            or _in_place(problem, job, picked)
            or (picked >= 0 and partner[job] < 0 and _same(view, selection, job, running))
        ):
            same = running.partner == name[job]
            kept[job] = running if same else replace(running, partner=name[job])
            for node, gpus in running.placement.parts:
                taken.setdefault(node, set()).update(gpus)
    assignments: list[Assignment] = []
    made: dict[int, Assignment] = {}
    for job, picked in enumerate(choice):
        if kept[job] is not None:
            assignments.append(kept[job])  # type: ignore[arg-type]
            continue
        if picked < 0:
            continue
        mate = made.get(picked) or (kept[partner[job]] if partner[job] >= 0 else None)
        if mate is not None:
            plan = view.configuration(job, picked).plan
            assignments.append(
                Assignment(view.states[job].job.name, plan, mate.placement, mate.job)
            )
            continue
        parts: dict[int, list[int]] = {}
        for count, node in zip(problem.candidates.parts(picked), selection.nodes[job], strict=True):
            used = taken.setdefault(node, set())
            free = [gpu for gpu in range(nodes[node].type.gpus) if gpu not in used][:count]
            used.update(free)
            parts[node] = free
        made[picked] = Assignment(
            view.states[job].job.name,
            view.configuration(job, picked).plan,
            Placement.of(parts),
            name[job],
        )
        assignments.append(made[picked])
    return Allocation(tuple(assignments))


def _in_place(problem: RoundProblem, job: int, picked: int) -> bool:
    """Whether a job stays where it runs as one of a pair."""
    pair = picked - (problem.candidates.count - problem.pairs.count)
    if pair < 0:
        return False
    first = int(problem.candidates.job[picked]) == job
    return int((problem.pairs.first_half if first else problem.pairs.second_half)[pair]) == STAY


def _same(view: RoundView, selection: Selection, job: int, running: Assignment) -> bool:
    candidate = int(selection.choice[job])
    if running.partner is not None:
        return False  # the other one may go on there
    if view.configuration(job, candidate).plan != running.plan:
        return False
    parts = zip(selection.nodes[job], view.problem.candidates.parts(candidate), strict=True)
    held = ((node, len(gpus)) for node, gpus in running.placement.parts)
    return sorted(parts) == sorted(held)
