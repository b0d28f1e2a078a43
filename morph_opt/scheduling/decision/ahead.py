"""Plans ahead, where nothing that runs is stopped: who starts now, and when the others will.

Each round has the plan of the round before as its witness: `JobState.planned_s`. Placed again in
the order of these starts no job is later, as long as no job runs longer than was believed and no
node fails. So a promised latest start stays possible (``docs/formulations/plan-ahead.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from formulations.ahead.bound import bound_of, slot_ends, slots
from formulations.ahead.search import planned
from formulations.ahead.tasks import PLAN, Outlook, PlanParams, Start, Task, Way, cost_of
from formulations.ahead.timeline import Timeline, compacted, placed
from formulations.arrays import Floats, Ints
from formulations.objectives import seconds_left
from formulations.prices.relaxation import possible_options
from formulations.round.tables import RoundProblem
from formulations.tolerances import SAME_SPEED
from morph_opt.core.domain import InputError, RoundState
from morph_opt.scheduling.decision.due import (
    Cut,
    DueJob,
    DueRows,
    Late,
    due_instants,
    expected,
    waits,
)
from morph_opt.scheduling.decision.params import DUE, DueParams
from morph_opt.scheduling.decision.planned import PlannedStart, RoundPlan, StartPlan
from morph_opt.scheduling.decision.reserving import ends
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.decision.served import PLANNED, Room

OFF, SOFT, PROMISED = "off", "soft", "promised"
MODES = (OFF, SOFT, PROMISED)
"""Values of ``--plan-ahead``: no plan; waiting after due instants costs more; promised starts."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """Kind of plans of a policy.

    Parameters
    ----------
    promised
        Whether jobs are promised a latest start; otherwise late starts only cost more.
    params
        Numbers of the method.
    due
        Tolerances of instants.
    """

    promised: bool = False
    params: PlanParams = field(default_factory=lambda: PLAN)
    due: DueParams = field(default_factory=lambda: DUE)


@dataclass(frozen=True, slots=True)
class _Clock:
    """Instants relative to a round, at which something can start.

    Parameters
    ----------
    now_s
        Instant of the round.
    step_s
        Seconds between instants of rounds; 0 where rounds begin at events.
    close_s
        Seconds by which an end may come after its believed instant for lack of digits.
    """

    now_s: float
    step_s: float
    close_s: float

    @classmethod
    def of(cls, state: RoundState, at_events: bool, close_s: float) -> _Clock:
        """Return the clock of a round."""
        return cls(state.time_s, 0.0 if at_events else state.interval_s, close_s)

    def usable_s(self, seconds: float) -> float:
        """Return the first seconds from now at which GPUs that are freed then can be used."""
        if self.step_s == 0.0:
            return max(0.0, seconds)
        return self.step_s * max(1, math.ceil((seconds + self.close_s) / self.step_s))


@dataclass(frozen=True, slots=True)
class _Posed:
    """Jobs of a round as tasks.

    Parameters
    ----------
    waiting
        Position of each task's job in the round.
    tasks
        The tasks.
    options
        Per task and way, the option of the round that takes longest in it, shape (ways,).
    outlook
        Free GPUs.
    known
        Start of each in the plan of the round before, in seconds from now; inf for none.
    """

    waiting: list[int]
    tasks: list[Task]
    outlook: Outlook
    known: list[float]


class Plans:
    """Plans of one policy; each is made from that of the round before, which the state has.

    A search is made where jobs have come, started or ended since the last round. Otherwise the plan
    is kept, so that equal states may have other plans, and every round has to be seen.

    Parameters
    ----------
    ahead
        Kind of plans.
    """

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead
        self._before: _Jobs | None = None
        self._again, self._at_events = False, False
        self._made: tuple[RoundState, dict[_Key, tuple[OperatorRules, DueRows]]] | None = None

    def observe(self, state: RoundState) -> None:
        """See a round that is decided elsewhere."""
        # An event may fall on a boundary: one round off them shows that rounds begin at events.
        rounds = state.time_s / state.interval_s
        off_s = abs(rounds - round(rounds)) * state.interval_s
        self._at_events = self._at_events or off_s >= self._ahead.due.same_s
        self._before = _jobs_of(state)

    def rows(
        self,
        problem: RoundProblem,
        state: RoundState,
        rules: OperatorRules,
        always: Sequence[StartBy] = (),
        cut: Cut | None = None,
        share: float = 1.0,
    ) -> DueRows:
        """Return the rows that carry out the first starts of a plan, made once per round and cut.

        Jobs that lose their rows by the cut start at the next instant at the earliest.
        See `morph_opt.scheduling.decision.due.due_rows`.
        """
        if self._made is None or self._made[0] is not state:
            again = self._before == _jobs_of(state)
            self._made, self._again = (state, {}), again
            self.observe(state)
        made = self._made[1]
        key = id(rules), cut
        if key not in made:
            others = (rows for (one, _), (_, rows) in reversed(made.items()) if one == key[0])
            last = next(others, None)
            barred: dict[int, str] = {}
            if cut is not None and last is not None and last.ahead is not None:
                barred = {**last.ahead.barred, **{r.job: cut.why for r in last.rows[cut.most :]}}
            how = self._ahead, barred, self._again, self._at_events
            found = plan_rows(problem, state, rules, always, share, *how)
            # The rules are kept, so that no others get their number.
            made[key] = rules, found
        return made[key][1]


_Key = tuple[int, Cut | None]
_Jobs = tuple[frozenset[str], frozenset[str]]
"""Names of jobs that wait, and of those that run."""


def _jobs_of(state: RoundState) -> _Jobs:
    waits = frozenset(known.job.name for known in state.jobs if known.running is None)
    return waits, frozenset(known.job.name for known in state.jobs if known.running is not None)


def plan_rows(
    problem: RoundProblem,
    state: RoundState,
    rules: OperatorRules,
    always: Sequence[StartBy],
    share: float,
    ahead: Ahead,
    barred: dict[int, str],
    again: bool = False,
    at_events: bool = False,
) -> DueRows:
    """Return the rows of a round that carry out the first starts of a plan.

    Parameters
    ----------
    problem, state, rules, always, share
        See `morph_opt.scheduling.decision.due.due_rows`; promises go by whole run times.
    ahead
        Kind of plan.
    barred
        Jobs that cannot start now for another reason than GPUs, and the reasons.
    again
        Whether the jobs are those of the round before, so that its plan is kept if it is possible.
    at_events
        Whether rounds begin at events; otherwise starts and ends are rounded up to boundaries.
    """
    if all(known.running is not None for known in state.jobs):
        return DueRows()
    share = 1.0 if ahead.promised else share
    start_by = (*always, *(rule for rule in rules.rules if isinstance(rule, StartBy)))
    _, since_s = due_instants(state, waits(problem, state, start_by, share))
    likely = expected(problem, state, share)
    possible, may_idle = possible_options(problem)
    clock = _Clock.of(state, at_events, ahead.due.same_s)
    while True:
        room = Room(problem, possible, may_idle, ahead.due)
        posed = _posed(likely, state, room, clock, since_s, barred)
        if not posed.tasks:
            return DueRows()
        plan, told = _made(posed, ahead, again)
        now = [at for at, start in enumerate(plan) if start.start_s <= clock.close_s]
        now.sort(key=lambda at: (since_s[posed.waiting[at]], at))
        refused = _refused(room, [posed.waiting[at] for at in now])
        if refused is None:
            break
        barred[refused[0]] = refused[1]
    starts = _told(posed, plan, state, clock, ahead, barred) if told else ()
    report = _report(posed, plan, starts, ahead) if starts else None
    rows = tuple(DueJob(posed.waiting[at], float(since_s[posed.waiting[at]]), False) for at in now)
    late = tuple(
        Late(
            state.jobs[job].job.name,
            float(since_s[job]),
            barred.get(job, PLANNED),
            clock.now_s + start.start_s if start.start_s < math.inf else None,
        )
        for job, start in zip(posed.waiting, plan, strict=True)
        if since_s[job] <= state.time_s + ahead.due.same_s and start.start_s > clock.close_s
    )
    coming = (one.start_s for one in plan if clock.close_s < one.start_s)
    next_s = clock.now_s + min(coming, default=math.inf)
    jobs, options = _kept_back(likely, posed, plan, now)
    return DueRows(rows, late, next_s, ahead=RoundPlan(jobs, options, report, barred))


def _posed(
    likely: RoundProblem,
    state: RoundState,
    room: Room,
    clock: _Clock,
    since_s: Floats,
    barred: dict[int, str],
) -> _Posed:
    """Return jobs that wait and have a way to start as tasks, and the free GPUs over time."""
    free = np.asarray(room.division[0])
    freed: dict[float, Floats] = {}
    for end_s, way in ends(likely, state, room, (), ()):
        at_s = clock.usable_s(end_s - clock.now_s)
        freed[at_s] = freed.get(at_s, np.zeros(free.size)) + np.asarray(way)
    begin_s = np.asarray([0.0, *sorted(freed)])
    rows = np.cumsum([free, *(freed[at_s] for at_s in sorted(freed))], axis=0)
    left_s, members = seconds_left(likely), likely.options.members
    longest_s = np.zeros(likely.options.count)
    np.maximum.at(longest_s, members.option, left_s)
    later_s = float(begin_s[1]) if begin_s.size > 1 else state.interval_s
    waiting, tasks, known_s = [], [], []
    for job, known in enumerate(state.jobs):
        if known.running is not None:
            continue
        ways = _ways(likely, room, job, known.job.requested_gpus, longest_s, clock)
        if not ways:
            continue
        waiting.append(job)
        promised_s = math.inf if known.promised_s is None else known.promised_s - clock.now_s
        after_s = later_s if job in barred else 0.0
        tasks.append(Task(ways, float(since_s[job] - clock.now_s), promised_s, after_s))
        known_s.append(math.inf if known.planned_s is None else known.planned_s - clock.now_s)
    return _Posed(waiting, tasks, Outlook(begin_s, rows), known_s)


def _ways(
    problem: RoundProblem, room: Room, job: int, gpus: int, run_s: Floats, clock: _Clock
) -> tuple[Way, ...]:
    """Return the ways in which a job may start with the GPUs it asks for, the fastest of each.

    A job that cannot run on these has all its ways.
    """
    options = room.starts_of(job)
    asked = options[problem.options.starts.gpus[options] == gpus]
    found: dict[tuple[float, ...], float] = {}
    for option in (asked if asked.size else options).tolist():
        way = room.gpus_of(option)
        found[way] = min(found.get(way, math.inf), float(run_s[option]))
    return tuple(
        Way(tuple((kind, n) for kind, n in enumerate(way) if n > 0.0), clock.usable_s(seconds))
        for way, seconds in sorted(found.items())
    )


def _made(posed: _Posed, ahead: Ahead, again: bool) -> tuple[list[Start], bool]:
    """Return a plan, and whether it differs from that of the round before."""
    tasks, late, close_s = posed.tasks, ahead.params.late, ahead.due.same_s
    witness = _witness(posed, late)
    pairs = zip(witness, posed.known, strict=True)
    same = all(one.start_s == s or abs(one.start_s - s) <= close_s for one, s in pairs)
    if again and same:
        return witness, False
    bound = tasks
    if ahead.promised:
        pairs_of = zip(tasks, witness, strict=True)
        bound = [replace(one, latest_s=max(one.due_s, it.start_s)) for one, it in pairs_of]
    plan, (missed, cost) = planned(posed.outlook, bound, witness, ahead.params)
    if missed or cost >= cost_of(tasks, witness, late):
        plan = witness
    return compacted(posed.outlook, tasks, plan), True


def _witness(posed: _Posed, late: float) -> list[Start]:
    """Return the plan of the round before, with each job as early as it now fits, then the new."""
    tasks, timeline = posed.tasks, Timeline(posed.outlook)
    found = [Start(math.inf, 0)] * len(tasks)
    order = sorted(range(len(tasks)), key=lambda at: (posed.known[at], tasks[at].due_s, at))
    for at in order:
        found[at] = placed(timeline, tasks[at], late) or found[at]
    return found


def _refused(room: Room, jobs: Sequence[int]) -> tuple[int, str] | None:
    """Return the first job that a rule keeps from starting next to those before it, and why."""
    for job in jobs:
        why = room.take(job, held=False)
        if why is not None:
            return job, why
    return None


def _told(
    posed: _Posed,
    plan: Sequence[Start],
    state: RoundState,
    clock: _Clock,
    ahead: Ahead,
    barred: dict[int, str],
) -> tuple[PlannedStart, ...]:
    """Return the starts that are new, with promises made, kept or moved."""
    close_s, found = ahead.due.same_s, []
    for at in sorted(range(len(plan)), key=lambda at: (plan[at].start_s, at)):
        known = state.jobs[posed.waiting[at]]
        start_s = clock.now_s + plan[at].start_s
        if start_s == math.inf or abs(posed.known[at] - plan[at].start_s) <= close_s:
            continue
        by_s, later_s, why = known.promised_s, 0.0, ""
        if ahead.promised:
            best_s = max(clock.now_s + posed.tasks[at].due_s, start_s)
            if by_s is None:
                by_s = best_s
            elif start_s > by_s + close_s:
                later_s, by_s = best_s - by_s, best_s
                why = barred.get(posed.waiting[at], "running jobs end later than was believed")
                if state.unavailable:
                    why = "nodes are closed, or running jobs end later than was believed"
        found.append(PlannedStart(known.job.name, start_s, by_s, later_s, why))
    return tuple(found)


def _report(
    posed: _Posed,
    plan: Sequence[Start],
    starts: tuple[PlannedStart, ...],
    ahead: Ahead,
) -> StartPlan:
    """Return what is told of a plan, with a bound on the cost of every other."""
    params = ahead.params
    pairs = [pair for pair in zip(posed.tasks, plan, strict=True) if pair[1].start_s < math.inf]
    tasks = [replace(one, latest_s=math.inf) for one, _ in pairs]
    cost = cost_of(tasks, [start for _, start in pairs], params.late)
    if not tasks or cost <= 0.0:
        return StartPlan(starts, len(tasks), cost, 0.0)
    ends_s = slot_ends(tasks, [start for _, start in pairs], params.slots)
    parts = slots(posed.outlook, tasks, ends_s, params.late)
    bound = bound_of(parts, cost, params)
    return StartPlan(starts, len(tasks), cost, max(0.0, bound))


def _kept_back(
    problem: RoundProblem, posed: _Posed, plan: Sequence[Start], now: Sequence[int]
) -> tuple[Ints, Ints]:
    """Return the jobs and options whose start is not that of the plan, shapes (E,).

    A planned start may also be one with no more GPUs of any class that ends no later.
    """
    members, options = problem.options.members, problem.options
    waits = ~problem.jobs.running
    kept = members.starts & waits[members.job]
    left_s = seconds_left(problem)
    for at in now:
        job, way = posed.waiting[at], posed.tasks[at].ways[plan[at].way]
        most = np.zeros(problem.nodes.classes)
        for kind, gpus in way.need:
            most[kind] = gpus
        mine = np.flatnonzero(members.job == job)
        fine = left_s[mine] <= way.run_s * (1.0 + SAME_SPEED)
        for kind in range(problem.nodes.classes):
            fine &= options.gpus_on(kind)[members.option[mine]] <= most[kind] + 1e-9
        kept[mine[fine]] = False
    return members.job[kept], members.option[kept]


def mode_of(text: str) -> str:
    """Return a value of ``--plan-ahead``.

    Raises
    ------
    InputError
        If it is none of them.
    """
    if text not in MODES:
        raise InputError(f"must be {', '.join(MODES[:-1])} or {MODES[-1]}", field="--plan-ahead")
    return text
