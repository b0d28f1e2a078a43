"""Due jobs: what has waited for its due time starts next, and then is held.

``docs/formulations/due.md`` has the rows and what they guarantee. Due instants are a function of
the snapshot alone: the time that a job has waited does not grow while it runs, so a job that was
due when it started still is, and nothing has to be remembered from round to round. Those by a
virtual EASY schedule are the exception (`morph_opt.scheduling.decision.shadow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools, Floats
from formulations.prices.relaxation import possible_options
from formulations.round.rules import with_served
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import InputError, RoundState
from morph_opt.scheduling.decision.params import DUE, DueParams, TurnParams
from morph_opt.scheduling.decision.planned import RoundPlan
from morph_opt.scheduling.decision.reserving import Reservation, reserved
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.decision.served import BEHIND, FULL, RESERVED, SHARE, TURN, Room
from morph_opt.scheduling.decision.shadow import Shadow
from morph_opt.scheduling.decision.turns import Turn, ran_s


@dataclass(frozen=True, slots=True)
class Late:
    """Job that is due and does not start.

    Parameters
    ----------
    job
        Name of the job.
    since_s
        Its due instant.
    why
        Reason, as a clause.
    from_s
        Instant at which it is expected to start, where GPUs are reserved for it or it waits for
        its turn; else None.
    """

    job: str
    since_s: float
    why: str
    from_s: float | None = None


@dataclass(frozen=True, slots=True)
class DueJob:
    """Job with a row.

    Parameters
    ----------
    job
        Position in the round.
    since_s
        Due instant, as of its start if it runs.
    held
        Whether it keeps running, no slower than now; otherwise it starts.
    stays
        Whether it then keeps its GPUs as well, so that it pays no further start-up.
    """

    job: int
    since_s: float
    held: bool
    stays: bool = False

    @property
    def row(self) -> str:
        """Name of the row."""
        return "held" if self.held else "due"


@dataclass(frozen=True, slots=True)
class Cut:
    """Limit of the number of rows, after a round with more had no decision.

    Parameters
    ----------
    most
        Rows that stay, those that were due first.
    why
        Reason for which the others have none.
    """

    most: int
    why: str


@dataclass(frozen=True, slots=True)
class DueRows:
    """Due jobs of a round.

    Parameters
    ----------
    rows
        Jobs with a row, in the order of their due instants.
    late
        Waiting jobs that are due and have no row; a decision may start them nevertheless.
    next_s
        Next due instant of a job that waits and is not due yet, or change of turns; inf if there
        is none.
    reservation
        GPUs that are kept for the first job that does not fit, where others may not be stopped.
    ahead
        Plan of all starts; it has starts now as rows, and no others are offered.
    """

    rows: tuple[DueJob, ...] = ()
    late: tuple[Late, ...] = ()
    next_s: float = float("inf")
    reservation: Reservation | None = None
    ahead: RoundPlan | None = None

    def applied(self, problem: RoundProblem) -> RoundProblem:
        """Return the round with rows ``due[j]``, ``held[j]``, ``reserved[j]``, ``ahead[j]``."""
        for name, held in (("due", False), ("held", True)):
            mine = [row for row in self.rows if row.held is held]
            jobs = np.asarray([row.job for row in mine], dtype=np.int64)
            if jobs.size:
                pace_s = problem.jobs.stay_iteration_s[jobs] if held else np.full(jobs.size, np.inf)
                stays = np.asarray([row.stays for row in mine])
                problem = with_served(problem, name, jobs, pace_s, stays)
        kept = self.reservation or self.ahead
        return problem if kept is None else kept.applied(problem)


def due_rows(
    problem: RoundProblem,
    state: RoundState,
    rules: OperatorRules,
    always: Sequence[StartBy] = (),
    cut: Cut | None = None,
    share: float = 1.0,
    turns: TurnParams | None = None,
    shadow: Shadow | None = None,
    params: DueParams = DUE,
) -> DueRows:
    """Return the rows of due jobs, chosen so that GPUs and rules can hold them together.

    Jobs are taken in the order of their due instants, as long as GPUs of every node class suffice
    next to what is taken before and what another rule keeps in place; the first job that does not
    fit ends the rows, so that nobody passes it. A job that rules or closed nodes keep from running
    does not end them. Jobs that are due by the virtual EASY schedule go before all others: next to
    each other they fit, because they fit there.

    Parameters
    ----------
    problem, state
        Round without these rows, and its snapshot.
    rules
        Rules of the operator.
    always
        Rules of the objective.
    cut
        Limit of the number of rows; None for none.
    share
        Share of their believed run time that jobs are expected to take.
    turns
        What jobs that are due by the objective's rules alone leave to others; None for no limit.
    shadow
        Virtual EASY schedule up to the round; None if no rule needs it.
    params
        Numbers of the method.
    """
    asked = [rule for rule in rules.rules if isinstance(rule, StartBy)]
    if not (always or asked) or not state.jobs:
        return DueRows()
    waits_s = waits(problem, state, always, share)
    asked_s = waits(problem, state, asked, share) if asked else np.full(waits_s.size, np.inf)
    easy_s, after_s = _by_easy(state, asked, shadow)
    asked_s = np.minimum(asked_s, easy_s)
    waits_s = np.minimum(waits_s, asked_s)
    queued_s, since_s = due_instants(state, waits_s)
    by_easy = queued_s >= easy_s - params.same_s
    due = queued_s >= waits_s - params.same_s
    coming = ~due & ~problem.jobs.running & np.isfinite(waits_s)
    next_s = min(after_s, float(since_s[coming].min(initial=np.inf)))
    if not due.any():
        return DueRows(next_s=next_s)
    for job in np.flatnonzero(due & problem.jobs.running & ~by_easy).tolist():
        since_s[job] -= ran_s(state.jobs[job], state.time_s)
    room = Room(problem, *possible_options(problem), params)
    own, most = queued_s < asked_s - params.same_s, float("inf")
    rests: list[Late] = []
    if turns is not None:
        most = turns.at_once * room.gpus
        turn = Turn.of(state, turns)
        wide = turn.wide(room, due)
        alone = int(wide.sum()) == 1
        wide &= own
        due, change_s = turn.held(problem, state, due, wide, queued_s - waits_s, alone=alone)
        next_s = min(next_s, change_s)
        rests = [
            Late(_name(state, job), float(since_s[job]), TURN, turn.changes_s)
            for job in np.flatnonzero(wide & ~due & ~problem.jobs.running).tolist()
        ]
    order = [job for job in np.lexsort([since_s, ~by_easy]).tolist() if due[job]]
    rows, late, full = _chosen(state, room, order, since_s, own, most)
    rows = [replace(row, stays=row.held and bool(by_easy[row.job])) for row in rows]
    found = limited(DueRows(tuple(rows), (*rests, *late), next_s), state, cut)
    lost = next((row.job for row in rows[len(found.rows) :] if not row.held), None)
    if lost is None and full is None:
        return found
    served, kept = [row.job for row in found.rows], None

    def kept_for(job: int, room: Room) -> Reservation | None:
        likely = expected(problem, state, share, float(since_s[job]))
        return reserved(likely, state, rules, room, job, served)

    if lost is not None:
        left = Room(problem, *possible_options(problem), params)
        for row in found.rows:
            left.take(row.job, row.held)
        kept = kept_for(lost, left)
        # Counts allow this job to start, so that only whole nodes are worth keeping for it.
        kept = kept if kept is not None and kept.nodes.size else None
    if kept is None and full is not None:
        kept = kept_for(full, room)
    if kept is None:
        return found
    name = _name(state, kept.job)
    said = (
        replace(one, why=RESERVED, from_s=kept.from_s) if one.job == name else one
        for one in found.late
    )
    return replace(found, late=tuple(said), reservation=kept)


def limited(found: DueRows, state: RoundState, cut: Cut | None) -> DueRows:
    """Return the rows without those beyond a limit; jobs that lose one are late."""
    if cut is None or len(found.rows) <= cut.most:
        return found
    left = [row for row in found.rows[cut.most :] if not row.held]
    late = (Late(_name(state, row.job), row.since_s, cut.why) for row in left)
    return replace(found, rows=found.rows[: cut.most], late=(*late, *found.late))


def due_instants(state: RoundState, waits_s: Floats) -> tuple[Floats, Floats]:
    """Return the seconds that jobs have waited, and the instants at which they are due, (J,)."""
    queued_s = np.asarray([known.queued_s for known in state.jobs])
    return queued_s, state.time_s - queued_s + waits_s


def waits(
    problem: RoundProblem, state: RoundState, rules: Sequence[StartBy], share: float
) -> Floats:
    """Return the seconds that each job may wait, shape (J,); inf for any number."""
    run_s = share * believed_run_s(problem, state)
    found = np.full(run_s.size, np.inf)
    for rule in rules:
        if rule.wait_s is None:
            continue
        wait_s = rule.wait_s + rule.per_run_second * np.minimum(run_s, rule.longest_run_s)
        if rule.jobs != ("*",) or rule.least_gpus > 1:
            wait_s[[not rule.names(known.job) for known in state.jobs]] = np.inf
        found = np.minimum(found, wait_s)
    return found


def _by_easy(
    state: RoundState, rules: Sequence[StartBy], shadow: Shadow | None
) -> tuple[Floats, float]:
    """Return waits until due by the virtual EASY schedule, (J,), and the least later due instant.

    A job without a virtual start gets one at the next virtual end at the earliest.
    """
    found, later_s = np.full(len(state.jobs), np.inf), float("inf")
    for rule in rules:
        after_s = rule.after_easy_s
        if after_s is None:
            continue
        if shadow is None:
            raise InputError("needs the rounds before", field="start_by.no_later_than")
        for at, known in enumerate(state.jobs):
            if rule.names(known.job):
                start_s = shadow.starts_s.get(known.job.name)
                if start_s is not None:
                    wait_s = start_s + after_s - state.time_s + known.queued_s
                    found[at] = min(found[at], wait_s)
                elif known.running is None:
                    later_s = min(later_s, shadow.next_end_s + after_s)
    return found, later_s


def believed_run_s(problem: RoundProblem, state: RoundState) -> Floats:
    """Return the believed run times of whole requests, on the slowest usable GPU type, (J,)."""
    iterations = np.asarray([float(known.job.iterations) for known in state.jobs])
    return iterations * _slowest_iteration_s(problem, state)


def expected(
    problem: RoundProblem, state: RoundState, share: float, since_s: float = float("inf")
) -> RoundProblem:
    """Return the round with the work that jobs are expected to have left.

    A job that has done its expected work already is expected to do all of the rest; if it runs
    since ``since_s`` or later, to end now.
    """
    if share == 1.0:
        return problem
    left = problem.jobs.iterations_left
    done = np.asarray([known.iterations_done for known in state.jobs])
    fewer = share * (done + left) - done
    # What starts by a reservation and runs for longer must not postpone it: its GPUs would idle on.
    ends = [
        known.running is not None and state.time_s - ran_s(known, state.time_s) >= since_s
        for known in state.jobs
    ]
    rest = np.where(ends, 0.0, left)
    jobs = replace(problem.jobs, iterations_left=np.where(fewer > 0.0, fewer, rest))
    return replace(problem, jobs=jobs)


def _slowest_iteration_s(problem: RoundProblem, state: RoundState) -> Floats:
    """Return seconds per iteration of requests on the slowest GPU type that they can use, (J,).

    A row is met on any of them. With one type, it is the speed of the request.
    """
    slowest = problem.jobs.request_iteration_s
    types = [kind.gpu_type for kind in state.cluster.node_types]
    if len(set(types)) == 1:
        return slowest
    candidates = problem.candidates
    asked = np.asarray([known.job.requested_gpus for known in state.jobs])
    within = np.flatnonzero(candidates.gpus <= asked[candidates.job])
    of_type = np.asarray([types.index(kind) for kind in types])[candidates.node_class[within]]
    for kind in np.unique(of_type).tolist():
        mine = within[of_type == kind]
        best = np.full(slowest.size, np.inf)
        np.minimum.at(best, candidates.job[mine], candidates.iteration_s[mine])
        slowest = np.maximum(slowest, np.where(np.isfinite(best), best, 0.0))
    return slowest


def _chosen(
    state: RoundState, room: Room, order: list[int], since_s: Floats, own: Bools, most: float
) -> tuple[list[DueJob], list[Late], int | None]:
    """Return the due jobs that can be served together, those that wait, and who ended the rows.

    Jobs that are due by the objective's rules alone (``own``) hold at most ``most`` GPUs together,
    unless the first of them needs more.
    """
    rows: list[DueJob] = []
    late: list[Late] = []
    full: int | None = None
    shut, gpus = False, 0.0
    for job in order:
        if not room.may_idle[job]:
            continue  # another rule keeps it running already
        runs = state.jobs[job].running is not None
        held = runs and room.may_stay(job)
        needs = room.least_gpus(job, held) if own[job] and most < float("inf") else 0.0
        shut = shut or (gpus > 0.0 and gpus + needs > most)
        if full is not None:
            why: str | None = BEHIND
        elif shut and own[job]:
            why = SHARE
        else:
            why = room.take(job, held)
        if why is None:
            gpus += needs
            rows.append(DueJob(job, float(since_s[job]), held))
        elif not runs:
            late.append(Late(_name(state, job), float(since_s[job]), why))
        if why == FULL:
            full = job
    return rows, late, full


def _name(state: RoundState, job: int) -> str:
    return state.jobs[job].job.name
