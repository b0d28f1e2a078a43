"""Goals of rules: ranked before the objective by priorities and classes, or after it.

A class, from the highest down, has up to three goals: its running jobs are kept, of equal victims
the newest are stopped, and what its jobs and those above are worth is most. So a running job of a
class makes way for classes above it alone, and those cost the least that a choice of victims can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.rule_table import RULE_S, RULE_X
from formulations.round.rules import broken_rule, with_rows
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from formulations.tolerances import SAME_SPEED
from morph_opt.core.domain import RoundState
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import NOTHING, OWN, PriorityClass, class_of
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import NodePreference, Priority


def ranks_below(problem: RoundProblem, rules: OperatorRules) -> tuple[Level, ...]:
    """Return the levels that rank after the objective and decide between equal decisions."""
    options, members = problem.options, problem.options.members
    levels: list[Level] = []
    if rules.fewer_moves:
        stays = np.where(members.starts, 0.0, 1.0)
        levels.append(Level.of(problem, "fewer_moves", "jobs left in place", stays))
    if rules.tighter_packing:
        nodes = np.bincount(options.held.option, minlength=options.count).astype(np.float64)
        nodes[: problem.candidates.count] += np.diff(problem.candidates.part_start)
        # Never negative: gains by stopping jobs would use up the slack of the levels above.
        below = nodes.max(initial=1.0) - nodes[members.alone]
        levels.append(Level.of(problem, "tighter_packing", "nodes below the widest shape", below))
    return tuple(levels)


def preferences(
    problem: RoundProblem, state: RoundState, rules: OperatorRules
) -> tuple[Level, ...]:
    """Return the level that favours each job's first node types; empty without preferences."""
    demands = [rule for rule in rules.rules if isinstance(rule, NodePreference)]
    if not demands:
        return ()
    types = [kind.name for kind in state.cluster.node_types]
    candidates, members = problem.candidates, problem.options.members
    worth = np.zeros(candidates.count)
    for rule in demands:
        most = len(rule.node_types)
        place = {name: most - at for at, name in enumerate(rule.node_types)}
        by_class = np.asarray([place.get(name, 0) for name in types], dtype=np.float64)
        for job, known in enumerate(state.jobs):
            if matches(known.job.name, rule.jobs):
                mine = np.flatnonzero(candidates.job == job)
                worth[mine] = by_class[candidates.node_class[mine]]
    value = np.where(members.starts & (members.alone < candidates.count), 1.0, 0.0)
    value[value > 0] = worth[members.alone[value > 0]]
    return (Level.of(problem, "node_preference", "places in lists of node types", value),)


def with_classes_kept(
    problem: RoundProblem, state: RoundState, rules: OperatorRules
) -> RoundProblem:
    """Return the round with a row ``class[j]`` for running jobs that no higher class may stop.

    The job stays, or moves to where it is faster. Where a rule, a promise or a higher class may
    need the GPUs of such jobs, `ranks_above` has a goal for them in place of rows.
    """
    classes, place = _classes(state, rules)
    running = problem.jobs.running
    if not classes or problem.shared.count or problem.jobs.guaranteed.any() or not running.any():
        return problem
    stays = Selection(np.where(running, problem.options.stay, NONE), ((),) * running.size)
    if broken_rule(problem, stays) is not None:
        return problem
    bound, kept = _bound(problem), np.zeros(running.size, dtype=bool)
    for at in range(len(classes), 0, -1):
        mine, preempts = (place == at) & ~bound, classes[at - 1].preempts
        if preempts != OWN:
            kept |= mine & running
        if preempts != NOTHING and mine.any():
            break
    jobs = np.flatnonzero(kept)
    if not jobs.size:
        return problem
    row_of = np.full(running.size, -1, dtype=np.int64)
    row_of[jobs] = np.arange(jobs.size)
    members = problem.options.members
    mine = np.flatnonzero(kept[members.job] & _keeps(problem))
    row, option = row_of[members.job[mine]], members.option[mine]
    return with_rows(problem, "class", jobs, np.ones(jobs.size), row, option, 1.0)


def ranks_above(
    problem: RoundProblem, state: RoundState, rules: OperatorRules, worth: Level
) -> tuple[Level, ...]:
    """Return the goals above the objective: victims of each class, and the value of each rank.

    The lowest rank needs no value, as the objective itself is about all jobs, and neither does one
    of jobs that must all stay. The value of a class that preempts nothing is what it
    can be while jobs of lower classes stay; classes in between may stop these nevertheless.
    """
    ranks, silent = ranks_of(state, rules)
    classes, place = _classes(state, rules)
    bound = _bound(problem)
    free = sorted(set(ranks[~bound].tolist()), reverse=True)
    if not free or not (classes or ranks.any()):
        return ()
    members = problem.options.members
    of_member = ranks[members.job]
    gpus = _gpus_held(problem)
    stays = np.where(members.starts, 0.0, gpus[members.job])
    levels: list[Level] = []
    chosen: set[int] = set()
    for rank in free:
        name = f"priority_{rank}".replace("-", "minus_")
        at = int(place[ranks == rank][0])
        if at and at not in chosen and classes[at - 1].preempts != OWN:
            levels += _victims(problem, state, name, (place == at) & ~bound)
        chosen.add(at)
        if rank == free[-1]:
            break
        if (silent & ~bound & (ranks == rank)).any():
            lower = np.where(of_member < rank, stays, 0.0)
            kept = Level.of(problem, f"kept_below_{name}", "GPUs of jobs that stay", lower)
            levels.append(replace(kept, passing=True))
        own = np.where(of_member >= rank, worth.worth, 0.0)
        levels.append(Level.of(problem, name, worth.unit, own))
    return tuple(levels)


def _victims(
    problem: RoundProblem, state: RoundState, name: str, movable: Bools
) -> Iterator[Level]:
    """Yield the goals that choose victims among the jobs of a class that may be stopped.

    The first is about GPU-seconds that stops lose: start-up, and progress since the last
    checkpoint. The second is there for equal losses: the job that started first is kept, then that
    of the higher priority, the larger weight, the earlier arrival, the first name.
    """
    movable = movable & problem.jobs.running & ~_held(problem)
    if not movable.any():
        return
    jobs = np.flatnonzero(movable)
    lost_s = [known.lost_s(state.time_s) + known.restart_s for known in state.jobs]
    # A stop that loses nothing is a stop as well: it counts as one second.
    loss = _gpus_held(problem) * np.maximum(1.0, np.asarray(lost_s))
    members = problem.options.members
    keeps = movable[members.job] & _keeps(problem)

    def level(word: str, unit: str, worth: Floats) -> Level:
        value = np.where(keeps, worth[members.job], 0.0)
        return Level.of(problem, f"{word}_{name}", unit, value)

    yield level("victims", "GPU-seconds that stops would lose", loss)
    if np.unique(np.round(loss[jobs], 6)).size == jobs.size:
        return

    def age(at: int) -> tuple[float, float, float, int]:
        job = state.jobs[at].job
        return -(state.jobs[at].last_start_s or 0.0), job.priority, job.weight, -at

    order = np.zeros(movable.size)
    order[sorted(jobs.tolist(), key=age)] = np.arange(1.0, jobs.size + 1.0)
    yield level("newest", "places in the order of starts", order)


def _keeps(problem: RoundProblem) -> Bools:
    """Return whether an option leaves its running member in place, or makes it faster, shape (M,).

    A move that makes a job no faster is for the sake of others.
    """
    members = problem.options.members
    gain = problem.jobs.stay_iteration_s[members.job] / members.iteration_s
    return np.asarray(~members.starts | (gain > 1.0 + SAME_SPEED))


def _held(problem: RoundProblem) -> Bools:
    """Return the jobs with a row ``class[j]``, shape (J,)."""
    held = np.zeros(problem.jobs.count, dtype=bool)
    rules = problem.rules
    named = (
        label[0] for name, label in zip(rules.name, rules.label, strict=True) if name == "class"
    )
    held[list(named)] = True
    return held


def _bound(problem: RoundProblem) -> Bools:
    """Return the jobs that a rule keeps exactly where they run, shape (J,)."""
    table = problem.rules
    bound = np.zeros(problem.jobs.count, dtype=bool)
    # A row of a due job that is held lets it start in a faster shape instead: it is not bound.
    movable = np.isin(table.row, table.row[table.kind == RULE_X])
    stays_only = (table.kind == RULE_S) & (table.lower[table.row] >= 1.0) & ~movable
    bound[table.index[stays_only]] = True
    return bound


def _gpus_held(problem: RoundProblem) -> Floats:
    """Return the GPUs that each job holds, shape (J,)."""
    holds = problem.holds
    gpus = np.bincount(holds.job, holds.demand[:, 0], minlength=problem.jobs.count)
    return gpus.astype(np.float64)


def _classes(state: RoundState, rules: OperatorRules) -> tuple[list[PriorityClass], Ints]:
    """Return the classes in order, and the place of each job's from 1, shape (J,); 0 for none."""
    classes = sorted(rules.classes, key=lambda one: one.priorities)
    mine = (class_of(known.job, classes) for known in state.jobs)
    place = [0 if one is None else 1 + classes.index(one) for one in mine]
    return classes, np.asarray(place, dtype=np.int64)


def ranks_of(state: RoundState, rules: OperatorRules) -> tuple[Ints, Bools]:
    """Return the rank of each job, and whether it is of a class that preempts nothing, shape (J,).

    Ranks are levels of `Priority` where there are no classes; else classes come first.
    """
    demands = [rule for rule in rules.rules if isinstance(rule, Priority)]
    classes, place = _classes(state, rules)
    level: list[tuple[int, int]] = []
    silent: list[bool] = []
    for known, at in zip(state.jobs, place.tolist(), strict=True):
        named = [rule.level for rule in demands if matches(known.job.name, rule.jobs)]
        level.append((at, max(named, default=0)))
        silent.append(at > 0 and classes[at - 1].preempts == NOTHING)
    if not classes:
        return np.asarray([own for _, own in level], dtype=np.int64), np.asarray(silent, dtype=bool)
    order = {one: at for at, one in enumerate(sorted(set(level)))}
    return np.asarray([order[one] for one in level], dtype=np.int64), np.asarray(silent, dtype=bool)
