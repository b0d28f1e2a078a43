"""Turn a selection (jobs and nodes as indices) into an allocation with numbered GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import compress
from operator import attrgetter

import numpy as np

from formulations.arrays import Bools
from formulations.round.rules import broken_rule
from formulations.round.tables import RoundProblem, Selection
from morph_opt.core.domain import Allocation, Assignment, Cluster, Placement, RoundState
from morph_opt.scheduling.decision.candidates.table import RoundView
from morph_opt.scheduling.decision.pose import PosedRound


def place(posed: PosedRound, selection: Selection) -> Allocation:
    """Return the allocation of a decision of a posed round; see `to_allocation`."""
    return to_allocation(posed.state, posed.view, selection)


def to_allocation(state: RoundState, view: RoundView, selection: Selection) -> Allocation:
    """Return the allocation of a selection; jobs that stay keep their very GPUs.

    New parts take the lowest-numbered free GPUs of their node, also of jobs that return to named
    nodes. A start in the same plan on the same nodes with as many GPUs on each as the job holds is
    a stay and keeps its GPUs.
    Both jobs of a pair get the same GPUs, in place those of the first, and name each other.

    Raises
    ------
    ValueError
        If an option of three jobs or more is chosen: an assignment names one partner.
    """
    problem, states, choice = view.problem, view.states, selection.choice
    members, options = problem.options.members, problem.options
    decided = np.flatnonzero(choice >= 0)
    with_others = decided[options.shared[choice[decided]]].tolist()
    together = {job: options.jobs_of(int(choice[job])) for job in with_others}
    partner: dict[int, str] = {}
    for job, jobs in together.items():
        if len(jobs) > 2:
            raise ValueError(f"option {choice[job]} is of {len(jobs)} jobs, allocations know pairs")
        partner[job] = next(states[other].job.name for other in jobs if other != job)
    rows = members.chosen(choice)
    keeps = np.zeros(choice.size, dtype=bool)
    keeps[members.job[rows]] = ~members.starts[rows]
    # One by one from here, but only jobs that change: most of up to 40,000 jobs just stay.
    held: list[Assignment | None] = list(map(_RUNNING, states))
    begins = decided[~keeps[decided]].tolist()
    spots = {job: selection.nodes[job] or problem.named_nodes(int(choice[job])) for job in begins}
    for job in begins:
        running = held[job]
        keeps[job] = (
            running is not None and job not in partner and _same(view, selection, job, running)
        )
    _pair_anew(held, np.flatnonzero(keeps).tolist(), partner)
    # Jobs that keep GPUs take them before any that starts is given some.
    taken = _taken(problem, held, keeps, {node for own in spots.values() for node in own})
    made: dict[int, Assignment] = {}
    for job in begins:
        if keeps[job]:
            continue
        picked, lead = int(choice[job]), together.get(job, [job])[0]
        plan, name = view.configuration(job, picked).plan, states[job].job.name
        # Jobs of one option get what its first was given; in place, what the host keeps.
        host = made.get(picked) or (held[lead] if keeps[lead] else None)
        if host is not None:
            held[job] = Assignment(name, plan, host.placement, host.job)
            continue
        there = _granted(state.cluster, problem.parts_of(picked), spots[job], taken)
        held[job] = made[picked] = Assignment(name, plan, there, partner.get(job))
    granted = compress(held, (choice >= 0).tolist())
    return Allocation(tuple(filter(None, granted)))


def with_own_gpus_kept(posed: PosedRound, selection: Selection) -> Selection:
    """Return the decision in which a start on the very GPUs that a job holds is a stay.

    `to_allocation` makes it one anyway; values are those of the stay only if the decision has it.
    """
    view, problem = posed.view, posed.problem
    options, choice = problem.options, selection.choice
    starts = (choice >= 0) & (choice < problem.candidates.count) & (options.stay >= 0)
    choice = choice.copy()
    for job in np.flatnonzero(starts).tolist():
        running, stay = view.states[job].running, int(options.stay[job])
        if running is not None and options.possible[stay] and _same(view, selection, job, running):
            choice[job] = stay
    nodes = tuple(
        () if after != before else own
        for after, before, own in zip(
            choice.tolist(), selection.choice.tolist(), selection.nodes, strict=True
        )
    )
    kept = Selection(choice, nodes)
    return selection if broken_rule(problem, kept) is not None else kept


_RUNNING, _PARTNER = attrgetter("running"), attrgetter("partner")


def _pair_anew(held: list[Assignment | None], keeps: list[int], partner: dict[int, str]) -> None:
    """Name the partners of jobs that keep their GPUs but get another partner."""
    if not partner and {*map(_PARTNER, map(held.__getitem__, keeps))} <= {None}:
        return
    for job in keeps:
        running = held[job]
        if running is not None and running.partner != partner.get(job):
            held[job] = replace(running, partner=partner.get(job))


def _taken(
    problem: RoundProblem, held: list[Assignment | None], keeps: Bools, wanted: set[int]
) -> dict[int, set[int]]:
    """Return the GPUs in use on each node where a job starts."""
    taken: dict[int, set[int]] = {node: set() for node in wanted}
    near = np.zeros(problem.nodes.count, dtype=bool)
    near[list(wanted)] = True
    holds = problem.holds
    for job in np.unique(holds.job[near[holds.node] & keeps[holds.job]]).tolist():
        running = held[job]
        assert running is not None
        for node, gpus in running.placement.parts:
            if node in taken:
                taken[node].update(gpus)
    return taken


def _granted(
    cluster: Cluster, counts: Iterable[int], spots: Iterable[int], taken: dict[int, set[int]]
) -> Placement:
    """Take the lowest-numbered free GPUs of the nodes of a job's parts; return its placement."""
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
        return False  # its partner may stay there
    if view.configuration(job, candidate).plan != running.plan:
        return False
    counts: dict[int, int] = {}
    parts = view.problem.options.starts.parts(candidate)
    for node, count in zip(selection.nodes[job], parts, strict=True):
        counts[node] = counts.get(node, 0) + count
    return counts == {node: len(gpus) for node, gpus in running.placement.parts}
