"""Fallback decisions, by prices or greedy filling, if no solve has an answer in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.arrays import Bools, Ints
from formulations.objectives import guarantee
from formulations.prices import Relaxation, choose_prices
from formulations.prices.placing import decided_by_prices
from formulations.prices.rounding import Rounding
from formulations.round.check import RuleError, check
from formulations.round.rule_table import RULE_S, RULE_U
from formulations.round.rules import broken_rule, with_promises
from formulations.round.shared import same_gpus
from formulations.round.tables import NONE, Level, RoundProblem, Selection
from morph_opt.scheduling.decision.filling import filled
from morph_opt.scheduling.decision.pose import PosedRound


def best_at_hand(problem: RoundProblem, level: Level) -> Selection:
    """Return the decision by prices, or `keep_and_fill` if it keeps more promises or is worth more.

    With pairs, and with jobs that may return to their nodes, it is always the latter.
    """
    kept = keep_and_fill(problem, level)
    if problem.shared.count or problem.returns.options:
        return kept
    from morph_opt.scheduling.solvers.small_lp import SmallLp

    counted = with_promises(problem)
    relaxation = Relaxation(counted, level)
    lp = SmallLp()
    chosen = choose_prices(relaxation, lp=lp)
    if not np.isfinite(chosen.evaluation.bound):
        return kept
    found = decided_by_prices(counted, Rounding(relaxation, chosen, lp))
    try:
        check(problem, found)
    except RuleError:
        return kept
    promises = guarantee(problem)
    worth = [(one.value(promises), one.value(level)) for one in (kept, found)]
    return found if worth[1] > worth[0] else kept


def without_goals(posed: PosedRound) -> PosedRound:
    """Return the round in which every decision is worth 0 and no job has a promise.

    Its solution is any decision that keeps the rules, or a proof that there is none.
    """
    problem = posed.problem
    jobs = replace(problem.jobs, guaranteed=np.zeros(problem.jobs.count, dtype=bool))
    view = replace(posed.view, problem=replace(problem, jobs=jobs))
    same = (Level("feasible", "", np.zeros(problem.options.count)),)
    return replace(posed, view=view, goals=same, fallback=same, ranks=())


def keep_and_fill(problem: RoundProblem, level: Level) -> Selection:
    """Keep the running allocation, then start queued jobs where they fit.

    Running jobs that a rule evicts are queued. If the others together still break a rule or
    overload an uplink, those that it concerns are queued one by one, the least valuable per GPU
    first, until none is broken; jobs that a rule keeps in place are not. Queued jobs follow as in
    `filled`. Without rules no running job is touched, so the result is feasible whenever the round
    is. Jobs that share GPUs stay together; no others share any.
    """
    kept = Selection(_kept(problem, level), ((),) * problem.jobs.count)
    return filled(problem, level, kept)


def _kept(problem: RoundProblem, level: Level) -> Ints:
    """Return the choice in which jobs stay wherever the rules allow it."""
    jobs, rules = problem.jobs, problem.rules
    options = problem.options
    staying = options.stay.copy()
    stays = rules.kind == RULE_S
    signed = np.zeros(rules.count, dtype=bool)
    signed[rules.row[rules.value < 0]] = True
    evicted = stays & ~signed[rules.row] & (rules.upper[rules.row] <= 0) & (rules.value > 0)
    staying[rules.index[evicted]] = NONE
    bound = np.zeros(jobs.count, dtype=bool)
    bound[rules.index[stays & (rules.lower[rules.row] >= 1)]] = True
    choice = _together(problem, staying, bound)
    density = np.zeros(jobs.count)
    stays = options.stays
    density[options.job[stays]] = level.value[stays] / np.maximum(1.0, options.gpus[stays])
    order = np.argsort(density, kind="stable")
    while (concerned := _in_the_way(problem, choice)) is not None:
        for job in order.tolist():
            if choice[job] != NONE and concerned[job] and not bound[job]:
                staying[job] = NONE
                choice = _together(problem, staying, bound)
                break
        else:
            break
    return choice


def _in_the_way(problem: RoundProblem, choice: Ints) -> Bools | None:
    """Return the jobs of a broken rule or overbooked uplink, shape (J,); None if all hold."""
    broken = broken_rule(problem, Selection(choice, ((),) * problem.jobs.count))
    if broken is not None:
        return _concerned(problem, broken)
    limit = problem.nodes.uplink_gb_per_s
    here = problem.options.held.chosen(choice)
    here = here.take(here.uplink_gb_per_s > 0)
    leaf = problem.nodes.leaf[here.node]
    used = np.bincount(leaf, here.uplink_gb_per_s, minlength=limit.size)
    over = used > limit * (1 + 1e-9)
    if not over.any():
        return None
    jobs = np.zeros(problem.jobs.count, dtype=bool)
    jobs[here.job[over[leaf]]] = True
    return jobs


def _together(problem: RoundProblem, staying: Ints, bound: Bools) -> Ints:
    """Return the choice in which jobs that share GPUs stay together as far as possible.

    Only jobs in ``staying`` stay; those that must (``bound``) come first.
    """
    options, choice = problem.options, staying.copy()
    starts = np.bincount(options.members.option[options.members.starts], minlength=options.count)
    here = np.flatnonzero(options.possible & (starts == 0))
    continuing = same_gpus(options.gang) & (choice != NONE)
    for gang in np.unique(options.gang[continuing]).tolist():
        mine = np.flatnonzero(continuing & (options.gang == gang))
        ways = [
            (options.jobs_of(option), option)
            for option in here[options.gang[options.job[here]] == gang].tolist()
        ]
        ways = [way for way in ways if np.isin(way[0], mine).all()]
        # Stays are options of one job and come last: of equal ways the first is taken.
        jobs, option = max(ways, key=lambda way: (bound[way[0]].sum(), len(way[0])))
        choice[mine] = NONE
        choice[jobs] = option
    return choice


def _concerned(problem: RoundProblem, broken: tuple[str, tuple[int, ...]]) -> Bools:
    """Return the jobs whose stays count in a broken row or in rows joined to it, shape (J,).

    An auxiliary column joins the rows that have it, in trees of quotas from level to level.
    """
    rules = problem.rules
    rows = np.asarray([rule == broken for rule in zip(rules.name, rules.label, strict=True)])
    own = rules.kind == RULE_U
    count = 0
    while rows.sum() > count:
        count = int(rows.sum())
        joined = np.isin(rules.index, rules.index[own & rows[rules.row]])
        rows[rules.row[own & joined]] = True
    jobs = np.zeros(problem.jobs.count, dtype=bool)
    jobs[rules.index[(rules.kind == RULE_S) & rows[rules.row]]] = True
    return jobs
