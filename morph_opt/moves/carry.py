"""Steps of a decision with the GPUs that each takes, in an order that can be carried out."""

from __future__ import annotations

import numpy as np

from formulations.round.tables import NONE, Selection
from morph_opt.core.domain import Allocation, Assignment, Placement
from morph_opt.moves.answer import Move
from morph_opt.moves.order import MOVE, START, STOP, Amounts, Change, in_order
from morph_opt.moves.pose import PosedQuestion, loss_gpu_s, restart_s


def changes_of(posed: PosedQuestion, selection: Selection) -> list[Change]:
    """Return the changes of jobs that a decision makes, waiting jobs last."""
    problem, found = posed.problem, []
    options, holds = problem.options, problem.holds
    uplinks = _uplinks(posed)
    for job in range(posed.view.problem.jobs.count):
        choice = int(selection.choice[job])
        if choice == int(options.stay[job]):  # -1 for a job that waits on
            continue
        before: Amounts = {}
        if options.stay[job] >= 0:
            rows = np.flatnonzero(holds.job == job)
            before = {
                int(node): tuple(each)
                for node, each in zip(holds.node[rows], holds.demand[rows].tolist(), strict=True)
            }
            before |= _sent(
                uplinks,
                problem.nodes.leaf[holds.node[rows]].tolist(),
                holds.uplink_gb_per_s[rows].tolist(),
            )
        after: Amounts = {}
        if choice != NONE:
            nodes, parts = selection.nodes[job], problem.parts_of(choice)
            sums: dict[int, np.ndarray] = {}
            for node, part in zip(nodes, parts, strict=True):
                each = options.starts.demand(choice, part)
                sums[node] = sums.get(node, np.zeros(each.size)) + each
            after = {node: tuple(each.tolist()) for node, each in sums.items()}
            sent = [options.starts.sends(choice, part) for part in parts]
            after |= _sent(uplinks, problem.nodes.leaf[list(nodes)].tolist(), sent)
        known = posed.view.states[job]
        cost = 0.0 if known.running is None else float(known.running.placement.gpus)
        found.append(Change(job, before, after, cost))
    return sorted(found, key=lambda change: not change.before)


def _uplinks(posed: PosedQuestion) -> dict[int, int]:
    """Return a negative number for each leaf with a limited uplink, to treat it as a node."""
    limits = posed.problem.nodes.uplink_gb_per_s
    return {int(leaf): -1 - int(leaf) for leaf in np.flatnonzero(np.isfinite(limits))}


def _sent(uplinks: dict[int, int], leaves: list[int], sent: list[float]) -> Amounts:
    """Return the traffic on limited uplinks, stored like amounts on further nodes."""
    sums: dict[int, tuple[float, ...]] = {}
    for leaf, amount in zip(leaves, sent, strict=True):
        if amount > 0.0 and leaf in uplinks:
            at = uplinks[leaf]
            sums[at] = (sums.get(at, (0.0,))[0] + amount,)
    return sums


def _free(posed: PosedQuestion) -> dict[int, list[float]]:
    """Return the initially free amounts on each node and limited uplink."""
    problem = posed.problem
    left = problem.nodes.capacity[problem.nodes.node_class] - problem.held()
    found = dict(enumerate(left.tolist()))
    for leaf, at in _uplinks(posed).items():
        here = problem.nodes.leaf[problem.holds.node] == leaf
        used = float(problem.holds.uplink_gb_per_s[here].sum())
        found[at] = [float(problem.nodes.uplink_gb_per_s[leaf]) - used]
    return found


class _Gpus:
    """Free GPUs by number, and the holdings of jobs."""

    def __init__(self, posed: PosedQuestion) -> None:
        state = posed.state
        self.held: dict[str, Assignment] = state.held.by_job()
        self.free = {at: set(range(node.type.gpus)) for at, node in enumerate(state.cluster.nodes)}
        for one in self.held.values():
            for node, gpus in one.placement.parts:
                self.free[node] -= set(gpus)

    def give(self, job: str) -> Assignment | None:
        """Free the GPUs that a job holds."""
        held = self.held.pop(job, None)
        for node, gpus in () if held is None else held.placement.parts:
            self.free[node] |= set(gpus)
        return held

    def take(self, made: Assignment) -> None:
        """Take the GPUs of an assignment."""
        for node, gpus in made.placement.parts:
            self.free[node] -= set(gpus)
        self.held[made.job] = made


def carried_out(posed: PosedQuestion, selection: Selection) -> tuple[tuple[Move, ...], Allocation]:
    """Return the steps of a decision in order, and the holdings after the last step.

    A step takes the lowest-numbered GPUs that are free on its nodes; on a node that the job keeps,
    its own first.
    """
    changes = {change.job: change for change in changes_of(posed, selection)}
    gpus, steps = _Gpus(posed), []
    apart = not _uplinks(posed)
    for step in in_order(list(changes.values()), _free(posed), apart):
        known = posed.view.states[step.job]
        name = known.job.name
        before = gpus.give(name)
        after = None
        if step.kind in (MOVE, START):
            after = _assigned(posed, selection, step.job, gpus, before)
            gpus.take(after)
        cost = before is not None and step.kind != START
        stopped_for_good = step.kind == STOP and not changes[step.job].after
        loss = loss_gpu_s(known, posed.state, posed.question.checkpoint_s) if cost else 0.0
        steps.append(
            Move(
                step.kind,
                name,
                before,
                after,
                float(posed.avoided[step.job]) if stopped_for_good else loss,
                restart_s(known) if cost else 0.0,
                known.lost_s(posed.state.time_s, posed.question.checkpoint_s) if cost else 0.0,
                _why(posed, selection, changes, step.job, step.kind),
            )
        )
    order = [known.job.name for known in posed.view.states]
    held = tuple(gpus.held[name] for name in order if name in gpus.held)
    return tuple(steps), Allocation(held)


def _assigned(
    posed: PosedQuestion, selection: Selection, job: int, gpus: _Gpus, before: Assignment | None
) -> Assignment:
    """Return the assignment with which a job starts, on GPUs that are free now."""
    choice = int(selection.choice[job])
    own = {} if before is None else {node: set(had) for node, had in before.placement.parts}
    counts: dict[int, int] = {}
    parts = posed.problem.parts_of(choice)
    for node, part in zip(selection.nodes[job], parts, strict=True):
        counts[node] = counts.get(node, 0) + part
    placed = {
        node: sorted(gpus.free[node], key=lambda gpu: (gpu not in own.get(node, ()), gpu))[:count]
        for node, count in counts.items()
    }
    plan = posed.view.configuration(job, choice).plan
    return Assignment(posed.view.states[job].job.name, plan, Placement.of(placed))


def _why(
    posed: PosedQuestion,
    selection: Selection,
    changes: dict[int, Change],
    job: int,
    kind: str,
) -> str:
    """Return the purpose of a step."""
    question = posed.question
    if kind == START and not changes[job].before:
        return "is asked for"
    if kind == START:
        return "goes on on its new GPUs"
    leaves = {node for node in changes[job].before if node >= 0}
    if job in posed.leaving:
        drained = [
            name for name in question.drain if posed.state.cluster.node_index[name] in leaves
        ]
        return f"leaves {', '.join(drained)}"
    for other in posed.wanted.tolist():
        if leaves & set(selection.nodes[other]):
            if question.start is not None:
                return f"makes way for {question.start}"
            nodes = sorted(leaves & set(selection.nodes[other]))
            return f"frees {', '.join(posed.state.cluster.nodes[node].name for node in nodes)}"
    for other, change in changes.items():
        if other != job and leaves & set(change.after):
            return f"makes way for {posed.view.states[other].job.name}"
    return "shares an uplink or a rule with the others"
