"""What a decision leaves free goes to jobs that wait and are worth something there.

An answer within a gap may leave a job waiting beside GPUs that nobody takes: what it would add is
less than the gap, or less than a solver's tolerance. Adding it is never wrong, and which jobs are
added follows a stated order, so that a decision does not hang on either.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Bools
from formulations.round.decode import (
    Room,
    place_parts,
    room_after_stays,
    started_parts,
)
from formulations.round.rules import broken_rule
from formulations.round.shared import same_gpus
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.tolerances import FEASIBILITY
from morph_opt.decision.method import Solved
from morph_opt.solvers.outcome import Outcome, relative_gap


def completed(problem: RoundProblem, solved: Solved) -> Solved:
    """The answer in which no job waits that may run on what is left and adds to the goals.

    A job is added in an option that no goal loses by and one gains by: first those that run go on
    in place, then queued ones start. No proven bound is touched: every bound holds for all
    decisions, these included.
    """
    before, last = solved.selection, solved.levels[-1]
    if before is None:
        return solved
    values = np.stack([level.value for level in solved.levels])
    gains: Bools = np.all(values >= 0.0, axis=0) & np.any(values > 0.0, axis=0)
    after = filled(problem, last, with_stays(problem, last, before, gains), gains)
    if (after.choice == before.choice).all():
        return solved
    tried = zip(solved.levels, solved.outcomes, strict=False)
    outcomes = tuple(_at(outcome, after.value(level)) for level, outcome in tried)
    return replace(solved, selection=after, outcomes=outcomes)


def _at(outcome: Outcome, value: float) -> Outcome:
    """An answer whose decision is worth more than it said."""
    if not outcome.usable:
        return outcome
    bound = max(outcome.bound, value)
    return replace(outcome, objective=value, bound=bound, gap=relative_gap(value, bound))


def with_stays(problem: RoundProblem, level: Level, selection: Selection, may: Bools) -> Selection:
    """The decision in which jobs that it stops go on where no other takes what they hold.

    Those that are worth most per GPU first. Jobs that share GPUs are left as they are.

    Parameters
    ----------
    may
        Options in question, shape (O,).
    """
    options, nodes = problem.options, problem.nodes
    stops = (selection.choice == NONE) & (options.stay != NONE) & ~same_gpus(options.gang)
    stopped = np.flatnonzero(stops)
    stopped = stopped[may[options.stay[stopped]]]
    if not stopped.size:
        return selection
    stays = options.stay[stopped]
    density = level.value[stays] / np.maximum(1.0, options.gpus[stays])
    room, choice = room_left(problem, selection), selection.choice.copy()
    for job in stopped[np.argsort(-density, kind="stable")].tolist():
        here = options.held.take(options.held.option == options.stay[job])
        on = nodes.open[here.node]
        free = (room.nodes[here.node] >= here.demand - FEASIBILITY).all(axis=1) | ~on
        carried = np.bincount(
            nodes.leaf[here.node], here.uplink_gb_per_s, minlength=room.uplinks.size
        )
        if not (free.all() and (room.uplinks >= carried - FEASIBILITY).all()):
            continue
        choice[job] = options.stay[job]
        if broken_rule(problem, Selection(choice, selection.nodes)) is not None:
            choice[job] = NONE
            continue
        room.nodes[here.node[on]] -= here.demand[on]
        room.uplinks[:] -= carried
    return Selection(choice, selection.nodes)


def filled(
    problem: RoundProblem, level: Level, selection: Selection, may: Bools | None = None
) -> Selection:
    """The decision with jobs that it leaves waiting started where they fit.

    They are taken by their best value per GPU; each gets its most valuable candidate for which
    distinct nodes with room exist and no rule breaks, parts going to the fullest such node.

    Parameters
    ----------
    may
        Options in question, shape (O,); None: all.
    """
    candidates, jobs = problem.candidates, problem.jobs.count
    fine = np.ones(candidates.count, bool) if may is None else may[: candidates.count].copy()
    fine &= selection.choice[candidates.job] == NONE
    if not fine.any():
        return selection
    room = room_left(problem, selection)
    # What is left only shrinks: jobs that find no GPUs now find none later.
    fits = fine & (candidates.gpus <= room.nodes[:, 0].sum() + FEASIBILITY)
    if fits.any():
        rows, which = candidates.templates
        most = np.zeros(problem.nodes.classes)
        np.maximum.at(most, problem.nodes.node_class, room.nodes[:, 0])
        largest = rows.part_gpus[rows.part_start[:-1]]
        fits &= (largest <= most[rows.node_class] + FEASIBILITY)[which]
    if not fits.any():
        return selection
    choice, spots = selection.choice.copy(), [*selection.nodes]
    density = level.value[: candidates.count] / np.maximum(1, candidates.gpus)
    best = np.full(jobs, -np.inf)
    np.maximum.at(best, candidates.job[fine], density[fine])
    start = np.searchsorted(candidates.job, np.arange(jobs + 1))
    fine, waiting = fits, np.unique(candidates.job[fits])
    for job in waiting[np.argsort(-best[waiting], kind="stable")].tolist():
        mine = np.arange(start[job], start[job + 1])
        mine = mine[fine[mine] & (candidates.gpus[mine] <= room.nodes[:, 0].sum() + FEASIBILITY)]
        for candidate in mine[np.argsort(-level.value[mine], kind="stable")].tolist():
            choice[job] = candidate
            if broken_rule(problem, Selection(choice, tuple(spots))) is None:
                found = place_parts(problem, candidate, room)
                if found is not None:
                    spots[job] = found
                    break
            choice[job] = NONE
    return Selection(choice, tuple(spots))


def room_left(problem: RoundProblem, selection: Selection) -> Room:
    """What a decision leaves free."""
    options, leaf = problem.options, problem.nodes.leaf
    room = room_after_stays(problem, selection.choice)
    jobs = np.flatnonzero(selection.named)
    # What several jobs share is taken once, by the first; what goes on in place was counted.
    jobs = jobs[options.job[selection.choice[jobs]] == jobs]
    rows = options.starts.templates[0]
    node, part = started_parts(problem, selection, jobs)
    np.subtract.at(room.nodes, node, rows.demands(part))
    sent = rows.part_gpus[part] * rows.sent_per_gpu[rows.part_candidate[part]]
    np.subtract.at(room.uplinks, leaf[node], sent)
    return room
