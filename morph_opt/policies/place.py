"""From a selection (jobs and nodes as indices) to an allocation with GPUs by number."""

from __future__ import annotations

from formulations.round_problem import STAY, Selection
from morph_opt.candidates.table import RoundView
from morph_opt.domain import Allocation, Assignment, Placement, RoundState


def to_allocation(state: RoundState, view: RoundView, selection: Selection) -> Allocation:
    """The allocation that a selection means; staying jobs keep their very GPUs.

    New parts take the lowest-numbered free GPUs of their node. Where a job starts in the same
    plan on the same nodes with the same counts as it runs now, it is a stay and keeps its GPUs.
    """
    nodes = state.cluster.nodes
    choice = selection.choice.tolist()
    kept: list[Assignment | None] = [None] * len(choice)
    taken: dict[int, set[int]] = {}
    for job, picked in enumerate(choice):
        running = view.states[job].running
        if running is not None and (
            picked == STAY or (picked >= 0 and _same(view, selection, job, running))
        ):
            kept[job] = running
            for node, gpus in running.placement.parts:
                taken.setdefault(node, set()).update(gpus)
    assignments: list[Assignment] = []
    for job, picked in enumerate(choice):
        if kept[job] is not None:
            assignments.append(kept[job])  # type: ignore[arg-type]
            continue
        if picked < 0:
            continue
        parts: dict[int, list[int]] = {}
        for count, node in zip(
            view.problem.candidates.parts(picked), selection.nodes[job], strict=True
        ):
            used = taken.setdefault(node, set())
            free = [gpu for gpu in range(nodes[node].type.gpus) if gpu not in used][:count]
            used.update(free)
            parts[node] = free
        assignments.append(
            Assignment(
                view.states[job].job.name,
                view.configuration(job, picked).plan,
                Placement.of(parts),
            )
        )
    return Allocation(tuple(assignments))


def _same(view: RoundView, selection: Selection, job: int, running: Assignment) -> bool:
    candidate = int(selection.choice[job])
    if view.configuration(job, candidate).plan != running.plan:
        return False
    parts = zip(selection.nodes[job], view.problem.candidates.parts(candidate), strict=True)
    held = ((node, len(gpus)) for node, gpus in running.placement.parts)
    return sorted(parts) == sorted(held)
