"""Give GPUs that a decision leaves free to waiting jobs that add value there.

An answer within a gap may leave GPUs idle that a waiting job could use, as the value of that job is
less than the gap or a solver's tolerance. Adding it is never wrong, and jobs are added in a stated
order, so that a decision depends on neither.
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
from formulations.round.rule_table import RULE_X
from formulations.round.rules import broken_rule
from formulations.round.shared import same_gpus
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.tolerances import FEASIBILITY
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.solvers.outcome import Outcome, relative_gap


def completed(problem: RoundProblem, solved: Solved) -> Solved:
    """Return the answer with every waiting job added that fits and adds to the goals.

    An option is added if no goal loses by it and one gains. Jobs that run stay first, then queued
    ones start. Proven bounds remain valid, as they hold for all decisions.
    """
    before, last = solved.selection, solved.levels[-1]
    if before is None:
        return solved
    values = np.stack([level.value for level in solved.levels])
    gains: Bools = np.all(values >= 0.0, axis=0) & np.any(values > 0.0, axis=0)
    stayed = with_stays(problem, last, before, gains)
    return with_selection(solved, filled(problem, last, stayed, gains))


def with_selection(solved: Solved, after: Selection) -> Solved:
    """Return the answer with another decision; its bounds hold for all decisions."""
    before = solved.selection
    if before is None or (after.choice == before.choice).all():
        return solved
    tried = zip(solved.levels, solved.outcomes, strict=False)
    outcomes = tuple(_at(outcome, after.value(level)) for level, outcome in tried)
    return replace(solved, selection=after, outcomes=outcomes)


def _at(outcome: Outcome, value: float) -> Outcome:
    """Return an outcome with another value."""
    if not outcome.usable:
        return outcome
    bound = max(outcome.bound, value)
    return replace(outcome, objective=value, bound=bound, gap=relative_gap(value, bound))


def with_stays(problem: RoundProblem, level: Level, selection: Selection, may: Bools) -> Selection:
    """Return the decision in which stopped jobs stay if no other job takes their GPUs.

    Jobs that are worth most per GPU come first. Jobs that share GPUs are left as they are.

    Parameters
    ----------
    may
        Whether an option is in question, shape (O,).
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
    """Return the decision in which waiting jobs start where they fit.

    Jobs with the best value per GPU come first; each gets its most valuable candidate that breaks
    no rule and has distinct nodes with enough free resources. Parts go to the fullest such node.

    Parameters
    ----------
    may
        Whether an option is in question, shape (O,); None: all are.
    """
    candidates, jobs = problem.candidates, problem.jobs.count
    fine = np.ones(candidates.count, bool) if may is None else may[: candidates.count].copy()
    fine &= selection.choice[candidates.job] == NONE
    if not fine.any():
        return selection
    room = room_left(problem, selection)
    # Free GPUs only shrink: jobs that find none now find none later.
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
    entries, places = _RuleEntries(problem), (candidates.templates[1], candidates.node_set)
    # Invariant: answers for candidates that are alike, valid until a job starts.
    breaks: dict[bytes, bool] = {}
    nowhere: set[tuple[int, int]] = set()
    for job in waiting[np.argsort(-best[waiting], kind="stable")].tolist():
        mine = np.arange(start[job], start[job + 1])
        mine = mine[fine[mine] & (candidates.gpus[mine] <= room.nodes[:, 0].sum() + FEASIBILITY)]
        for candidate in mine[np.argsort(-level.value[mine], kind="stable")].tolist():
            where = int(places[0][candidate]), int(places[1][candidate])
            if where in nowhere:
                continue
            choice[job] = candidate
            key = entries.of(candidate)
            if key not in breaks:
                breaks[key] = broken_rule(problem, Selection(choice, tuple(spots))) is not None
            found = None if breaks[key] else place_parts(problem, candidate, room)
            if found is not None:
                spots[job] = found
                breaks.clear()
                nowhere.clear()
                break
            choice[job] = NONE
            if not breaks[key]:
                nowhere.add(where)
    return Selection(choice, tuple(spots))


class _RuleEntries:
    """Entries of candidates in rows of rules; candidates with the same ones break the same rows."""

    def __init__(self, problem: RoundProblem) -> None:
        rules = problem.rules
        mine = np.flatnonzero(rules.kind == RULE_X)
        mine = mine[np.lexsort((rules.row[mine], rules.index[mine]))]
        self._row, self._value = rules.row[mine], rules.value[mine]
        self._first = np.searchsorted(rules.index[mine], np.arange(problem.candidates.count + 1))

    def of(self, candidate: int) -> bytes:
        """Return the rows and coefficients of a candidate as a key."""
        own = slice(int(self._first[candidate]), int(self._first[candidate + 1]))
        return self._row[own].tobytes() + self._value[own].tobytes()


def room_left(problem: RoundProblem, selection: Selection) -> Room:
    """Return the resources that a decision leaves free on nodes and uplinks."""
    options, leaf = problem.options, problem.nodes.leaf
    room = room_after_stays(problem, selection.choice)
    jobs = np.flatnonzero(selection.named)
    # GPUs that several jobs share are taken once, by the first; stays were counted already.
    jobs = jobs[options.job[selection.choice[jobs]] == jobs]
    rows = options.starts.templates[0]
    node, part = started_parts(problem, selection, jobs)
    np.subtract.at(room.nodes, node, rows.demands(part))
    sent = rows.part_gpus[part] * rows.sent_per_gpu[rows.part_candidate[part]]
    np.subtract.at(room.uplinks, leaf[node], sent)
    return room
