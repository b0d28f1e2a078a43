"""Objective ``auto``, the default: the choice of another objective."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import InputError, Job, PlanFamily, RoundState
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.units import HOUR_S
from morph_opt.scheduling.decision.ahead import OFF, PROMISED, Ahead
from morph_opt.scheduling.decision.objective import Objective
from morph_opt.scheduling.decision.params import TURNS, TurnParams
from morph_opt.scheduling.decision.promises import FACTOR, Promises
from morph_opt.scheduling.decision.rules.model import MinimumRun, NonPreemptible
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.policies.blind import Durations
from morph_opt.scheduling.policies.objectives.plain import Jct, Lookahead, SavedTime

if TYPE_CHECKING:
    from morph_opt.scheduling.policies.options import DecisionOptions, PolicyOptions

AUTO = "auto"
_WORKERS = {PlanFamily.EST}
DUE_AFTER = StartBy(wait_s=8 * HOUR_S, per_run_second=4.0)
"""Rule of ``auto`` where jobs may be stopped (docs/decisions/0050-due-jobs.md)."""
DUE_AFTER_RUNNING = StartBy(wait_s=4 * HOUR_S, per_run_second=2.0)
"""Rule of ``auto`` where no job may be stopped; waiting for running jobs to end comes on top."""


class OnGuesses(Objective[bool]):
    """`Jct` in rounds of elastic workers alone, else `Lookahead`; used if sizes are estimated."""

    name = AUTO
    remembers = False
    _of_workers, _of_others = Jct(), Lookahead()

    def observe(self, state: RoundState) -> bool:
        """Return whether all jobs have elastic workers."""
        return _families(known.job for known in state.jobs) == _WORKERS

    def levels(self, problem: RoundProblem, data: bool) -> tuple[Level, ...]:
        """Return completions per second for elastic workers, else seconds saved."""
        return (self._of_workers if data else self._of_others).goals(problem)


def objective_for(options: DecisionOptions) -> SavedTime | OnGuesses:
    """Return `SavedTime` if the work left is known, at least roughly, else `OnGuesses`.

    Dividing by the time for which GPUs are held pays where that is known; on guesses it does not.
    """
    told = Durations.parse(options.durations)
    guessed = told.blind or told.learnt
    return OnGuesses() if guessed else SavedTime(name=AUTO)


def _families(jobs: Iterable[Job]) -> set[PlanFamily]:
    return {job.requested_plan.family for job in jobs}


def promises_for(options: DecisionOptions) -> Promises:
    """Return ``options.promises``; by default weighted under ``auto``, else ranked."""
    if options.promises is not None:
        return Promises.parse(options.promises)
    return Promises(FACTOR) if options.objective == AUTO else Promises()


def start_by_for(options: PolicyOptions) -> tuple[StartBy, ...]:
    """Return the rules of due jobs that an objective has by itself: one under ``auto``."""
    if options.objective != AUTO:
        return ()
    return (DUE_AFTER_RUNNING,) if _every_job_stays(options) else (DUE_AFTER,)


def turns_for(options: PolicyOptions) -> TurnParams | None:
    """Return the turns of wide due jobs: under ``auto``, where no rule keeps jobs running.

    Where jobs may not be stopped a due job waits for them to end, and may not wait for turns too.
    """
    keep = any(isinstance(one, MinimumRun | NonPreemptible) for one in options.rules.rules)
    return TURNS if options.objective == AUTO and not keep else None


def ahead_for(options: PolicyOptions) -> Ahead | None:
    """Return the kind of plans of all starts; None for no plans.

    Raises
    ------
    InputError
        If jobs may be stopped, or their run times are guessed from others.
    """
    if options.plan_ahead == OFF:
        return None
    told = Durations.parse(options.durations)
    if told.blind or told.learnt:
        rule = f"needs run times or time limits, not {typed('--durations')} {options.durations}"
        raise InputError(rule, field="--plan-ahead")
    if not _every_job_stays(options):
        rule = f'needs {typed("--rules")} with [[non_preemptible]] jobs = ["*"]'
        raise InputError(rule, field="--plan-ahead")
    return Ahead(options.plan_ahead == PROMISED)


def require_shadow(options: PolicyOptions, *, blind: bool) -> None:
    """Refuse due instants by a virtual EASY schedule where it cannot be made.

    Raises
    ------
    InputError
        If run times are guessed from others, or starts are planned ahead.
    """
    rules = options.rules.rules
    if not any(isinstance(one, StartBy) and one.no_later_than is not None for one in rules):
        return
    told = Durations.parse(options.durations)
    if blind or told.blind or told.learnt:
        rule = "needs run times or time limits, and here they are guessed from completed jobs"
    elif options.plan_ahead != OFF:
        rule = f"cannot be combined with {typed('--plan-ahead')}"
    else:
        return
    raise InputError(rule, field="start_by.no_later_than")


def _every_job_stays(options: PolicyOptions) -> bool:
    stays = (one.jobs for one in options.rules.rules if isinstance(one, NonPreemptible))
    return any("*" in jobs for jobs in stays)


def reserves(options: PolicyOptions) -> bool:
    """Return whether rounds may have reservations, which go by accuracies of limits so far."""
    rules = options.rules.rules
    due = bool(start_by_for(options)) or any(isinstance(one, StartBy) for one in rules)
    return due and any(isinstance(one, NonPreemptible) for one in rules)


def chosen(policy: str, options: DecisionOptions, jobs: Collection[Job]) -> str | None:
    """Return one line on the choice of ``auto`` for these jobs; None for other objectives."""
    if policy != "milp" or options.objective != AUTO:
        return None
    durations = Durations.parse(options.durations)
    if durations.blind or durations.learnt:
        what = _on_guesses(jobs)
    elif durations.sigma:
        what = "auto: saved-time, because durations are estimated"
    elif durations.limits:
        what = "auto: saved-time on time limits, because durations are unknown"
    else:
        what = "auto: saved-time, because durations are known"
    promised = sum(job.guaranteed for job in jobs)
    if not promised:
        return what
    factor = promises_for(options).factor
    how = "by rank" if factor is None else f"by weight {factor:g}"
    are = "1 is" if promised == 1 else f"{promised} are"
    why = "as asked" if options.promises is not None else f"because {are} guaranteed"
    return f"{what}; promises {how}, {why}"


def _on_guesses(jobs: Iterable[Job]) -> str:
    """Return words for the choice of `OnGuesses` in rounds with some of these jobs."""
    families = _families(jobs)
    if families == _WORKERS:
        return "auto: jct on guesses, because durations of workers are unknown"
    if families >= _WORKERS or not families:
        return "auto: lookahead on guesses, jct in rounds of workers, as durations are unknown"
    return "auto: lookahead on guesses, as in jct-blind, because durations are unknown"
