"""Rounds that need no solve: every job runs and no job has a better option.

Then staying is each job's best option by itself, so the sum of the best options, which no decision
exceeds, is reached: the bound of prices that are all 0. Where goals only gain from speed and lose
from start-up, that stays so until a job arrives or completes or a node changes.
"""

from __future__ import annotations

import numpy as np

from formulations.round.tables import Selection
from morph_opt.scheduling.decision.filling import filled
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    NodeRule,
    NonPreemptible,
    OperatorRules,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.organisation import PriorityClass, Queue, RunningLimit
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import (
    CohortQuota,
    NodePreference,
    Priority,
    StartBy,
    StrictOrder,
)
from morph_opt.scheduling.solvers.outcome import Outcome, Status, Stop

_TIMELESS = (
    CohortQuota
    | GangLimit
    | NodePreference
    | NodeRule
    | NonPreemptible
    | Priority
    | PriorityClass
    | Queue
    | RunningLimit
    | StartBy
    | StrictOrder
    | TenantQuota
)
"""Rules that allow the same decisions at all times, or until the next due instant."""


def lasts_until_event(posed: PosedRound, selection: Selection) -> bool:
    """Return whether a decision after which nothing changes stays right until an event.

    It does where all that run must stay where they are, by rules that do not depend on time, and
    none that waits fits next to them: time changes neither. A set of jobs that fits has one that
    fits by itself, so that it is enough to try each.
    """
    rules = posed.rules.rules
    if posed.poser.objective.remembers or posed.problem.shared.count:
        return False
    if posed.due.reservation or posed.due.ahead:
        return False
    kept = [name for rule in rules if isinstance(rule, NonPreemptible) for name in rule.jobs]
    if not kept or not all(isinstance(rule, _TIMELESS) for rule in rules):
        return False
    if (selection.choice != posed.problem.options.stay).any():
        return False
    running = (known.job.name for known in posed.state.jobs if known.running is not None)
    if not all(matches(name, kept) for name in running):
        return False
    return bool((filled(posed.problem, posed.worth, selection).choice == selection.choice).all())


def at_best(posed: PosedRound) -> Solved | None:
    """Return the decision that every job stays, if it is optimal now and later; else None.

    Rounds under rules or promises, with several goals or with jobs on shared GPUs are left to
    solvers, and so are objectives without `Objective.faster_is_better`.
    """
    problem, objective = posed.problem, posed.poser.objective
    jobs, members = problem.jobs, problem.options.members
    if not objective.faster_is_better or objective.remembers:
        return None
    # Where every job runs, none is due.
    if posed.rules != OperatorRules(tuple(r for r in posed.rules.rules if isinstance(r, StartBy))):
        return None
    if len(posed.levels) > 1 or problem.shared.count or jobs.guaranteed.any():
        return None
    stays = ~members.starts
    if not jobs.running.all() or int(stays.sum()) != jobs.count:
        return None
    pace_s, start_up_s = np.empty(jobs.count), np.empty(jobs.count)
    pace_s[members.job[stays]] = members.iteration_s[stays]
    start_up_s[members.job[stays]] = members.startup_s[stays]
    faster = members.iteration_s < pace_s[members.job]
    sooner = members.startup_s < start_up_s[members.job]
    if faster.any() or sooner.any():
        return None
    (level,) = posed.levels
    best = np.zeros(jobs.count)
    np.maximum.at(best, members.job, level.value[members.option])
    selection = Selection(problem.options.stay.copy(), ((),) * jobs.count)
    value = selection.value(level)
    if (level.value[problem.options.stay] < best).any():
        return None
    proven = Outcome(
        Status.OPTIMAL,
        Stop.PROVED,
        "prices",
        objective=value,
        bound=value,
        gap=0.0,
        message="every job has its best option",
    )
    return Solved(selection, (proven,), posed.levels, step="stays", bound_by="prices")
