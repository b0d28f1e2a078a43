"""Due jobs: what has waited for its due time starts next, and then runs until it ends.

``docs/formulations/due.md`` has the rows and what they guarantee. Due instants are a function of
the snapshot alone: the time that a job has waited does not grow while it runs, so a job that was
due when it started still is, and nothing has to be remembered from round to round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from formulations.arrays import Bools, Floats, Ints
from formulations.prices.relaxation import possible_options
from formulations.round.rule_table import RULE_U
from formulations.round.rules import options_in_rules, with_served
from formulations.round.tables import RoundProblem
from formulations.tolerances import FEASIBILITY
from morph_opt.core.domain import JobState, RoundState
from morph_opt.scheduling.decision.params import DUE, DueParams
from morph_opt.scheduling.decision.rules.queues import StartBy

Way = tuple[float, ...]
"""GPUs by node class with which a job can be served."""


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
    """

    job: str
    since_s: float
    why: str


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
    """

    job: int
    since_s: float
    held: bool

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
        Next due instant of a job that waits and is not due yet; inf if there is none.
    """

    rows: tuple[DueJob, ...] = ()
    late: tuple[Late, ...] = ()
    next_s: float = float("inf")

    def applied(self, problem: RoundProblem) -> RoundProblem:
        """Return the round with rows ``due[j]`` and ``held[j]``."""
        for name, held in (("due", False), ("held", True)):
            jobs = np.asarray([row.job for row in self.rows if row.held is held], dtype=np.int64)
            if jobs.size:
                pace_s = problem.jobs.stay_iteration_s[jobs] if held else np.full(jobs.size, np.inf)
                problem = with_served(problem, name, jobs, pace_s)
        return problem


def due_rows(
    problem: RoundProblem,
    state: RoundState,
    rules: Sequence[StartBy],
    cut: Cut | None = None,
    params: DueParams = DUE,
) -> DueRows:
    """Return the rows of due jobs, chosen so that GPUs and rules can hold them together.

    Jobs are taken in the order of their due instants, as long as GPUs of every node class suffice
    next to what is taken before and what another rule keeps in place; the first job that does not
    fit ends the rows, so that nobody passes it. A job that rules or closed nodes keep from running
    does not end them.
    """
    waits_s = _waits(problem, state, rules)
    queued_s = np.asarray([known.queued_s for known in state.jobs])
    since_s = state.time_s - queued_s + waits_s
    due = queued_s >= waits_s - params.same_s
    coming = ~due & ~problem.jobs.running & np.isfinite(waits_s)
    next_s = float(since_s[coming].min(initial=np.inf))
    if not due.any():
        return DueRows(next_s=next_s)
    for job in np.flatnonzero(due & problem.jobs.running).tolist():
        since_s[job] -= _ran_s(state.jobs[job], state.time_s)
    order = [job for job in np.lexsort([since_s]).tolist() if due[job]]
    rows, late = _chosen(problem, state, order, since_s, params)
    if cut is not None and len(rows) > cut.most:
        left = [row for row in rows[cut.most :] if not row.held]
        late = [*(Late(_name(state, r.job), r.since_s, cut.why) for r in left), *late]
        rows = rows[: cut.most]
    return DueRows(tuple(rows), tuple(late), next_s)


def _waits(problem: RoundProblem, state: RoundState, rules: Sequence[StartBy]) -> Floats:
    """Return the seconds that each job may wait, shape (J,); inf for any number."""
    iterations = np.asarray([float(known.job.iterations) for known in state.jobs])
    run_s = iterations * _slowest_iteration_s(problem, state)
    waits = np.full(run_s.size, np.inf)
    for rule in rules:
        wait_s = rule.wait_s + rule.per_run_second * np.minimum(run_s, rule.longest_run_s)
        if rule.jobs != ("*",) or rule.least_gpus > 1:
            wait_s[[not rule.names(known.job) for known in state.jobs]] = np.inf
        waits = np.minimum(waits, wait_s)
    return waits


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


def _ran_s(known: JobState, now_s: float) -> float:
    """Return the seconds since a running job was given GPUs.

    Exact unless a job that was stopped before has changed its shape since: then a later start
    counts, and the job ranks after others that were due in between.
    """
    if known.last_stop_s is None or known.last_start_s is None:
        return known.executed_s
    return now_s - known.last_start_s


def _chosen(
    problem: RoundProblem, state: RoundState, order: list[int], since_s: Floats, params: DueParams
) -> tuple[list[DueJob], list[Late]]:
    """Return the due jobs that can be served together, and those that wait."""
    possible, may_idle = possible_options(problem)
    room = _Room(problem, possible, may_idle, params)
    rows: list[DueJob] = []
    late: list[Late] = []
    full = False
    for job in order:
        if not may_idle[job]:
            continue  # another rule keeps it running already
        runs = bool(problem.jobs.running[job])
        stay = int(problem.options.stay[job])
        held = runs and bool(possible[stay])
        why = _BEHIND if full else room.take(job, held)
        if why is None:
            rows.append(DueJob(job, float(since_s[job]), held))
        elif not runs:
            late.append(Late(_name(state, job), float(since_s[job]), why))
        full = full or why == _FULL
    return rows, late


def _name(state: RoundState, job: int) -> str:
    return state.jobs[job].job.name


_FULL = "its GPUs do not fit next to jobs that are due before it or must keep running"
_BEHIND = "waits for jobs that are due before it"
_NOWHERE = "the operator's rules and the open nodes leave it no configuration"


class _Room:
    """GPUs by node class, and limits of rules, that jobs with a row leave to others."""

    def __init__(
        self, problem: RoundProblem, possible: Bools, may_idle: Bools, params: DueParams
    ) -> None:
        self._problem, self._possible, self._params = problem, possible, params
        nodes, holds = problem.nodes, problem.holds
        self._kinds = range(nodes.classes)
        gpus = nodes.capacity[nodes.node_class, 0]
        # GPUs of each class on open nodes of each set, shape (M, T).
        self._of_set = np.stack([self._by_class(nodes.open & one, gpus) for one in nodes.sets])
        free = self._of_set[0]
        stays = ~may_idle & problem.jobs.running
        free = free - self._by_hold(stays[holds.job])
        self._left: list[Way] = [tuple(np.maximum(free, 0.0).tolist())]
        bound = problem.options.stay[stays]
        self._limits = _Limits(problem, bound)

    def _by_class(self, chosen: Bools, gpus: Floats) -> Floats:
        nodes = self._problem.nodes
        found = np.bincount(nodes.node_class[chosen], gpus[chosen], minlength=nodes.classes)
        return np.asarray(found, dtype=np.float64)

    def _by_hold(self, mine: Bools) -> Floats:
        """Return the GPUs by class of holds on open nodes."""
        nodes, holds = self._problem.nodes, self._problem.holds
        mine = mine & nodes.open[holds.node]
        kind = nodes.node_class[holds.node[mine]]
        return np.asarray(
            np.bincount(kind, holds.demand[mine, 0], minlength=nodes.classes), dtype=np.float64
        )

    def take(self, job: int, held: bool) -> str | None:
        """Serve a job, and return None; if it cannot be served, return why."""
        if held:
            options = self._problem.options.stay[job : job + 1]
            ways = [tuple(self._by_hold(self._problem.holds.job == job).tolist())]
        else:
            options = self._starts(job)
            ways = self._ways(options)
        if not ways:
            return _NOWHERE
        broken = self._limits.broken_by(options)
        if broken is not None:
            return f"the operator's rule {broken} leaves it too little"
        after = {
            tuple(had - taken for had, taken in zip(left, way, strict=True))
            for left in self._left
            for way in ways
            if all(had >= taken - FEASIBILITY for had, taken in zip(left, way, strict=True))
        }
        if not after:
            return _FULL
        self._left = _undominated(sorted(after, reverse=True), self._params.divisions, most=True)
        self._limits.take(options)
        return None

    def _starts(self, job: int) -> Ints:
        """Return the options in which a job may start alone within its nodes."""
        problem = self._problem
        mine = np.flatnonzero(problem.candidates.job == job)
        mine = mine[self._possible[mine]]
        fits = self._of_set[problem.candidates.node_set[mine]] >= self._gpus[:, mine].T
        return mine[fits.all(axis=1)]

    def _ways(self, options: Ints) -> list[Way]:
        """Return the least GPUs by class with which options serve their job."""
        found = {tuple(way) for way in self._gpus[:, options].T.tolist()}
        return _undominated(sorted(found, key=lambda way: (sum(way), way)), len(found), most=False)

    @cached_property
    def _gpus(self) -> Floats:
        """GPUs of each option by class, shape (T, O)."""
        return np.stack([self._problem.options.gpus_on(kind) for kind in self._kinds])


def _undominated(ways: Sequence[Way], count: int, *, most: bool) -> list[Way]:
    """Return the first entries that no other one before them is as good as, at most ``count``.

    Parameters
    ----------
    most
        Whether more GPUs are better, as of those left; otherwise fewer are.
    """
    kept: list[Way] = []
    for way in ways:
        pairs = (zip(way, other, strict=True) for other in kept)
        if not any(all((a <= b) if most else (a >= b) for a, b in pair) for pair in pairs):
            kept.append(way)
    return kept[:count]


class _Limits:
    """Upper limits of the operator's rules, as a necessary condition for serving jobs together."""

    def __init__(self, problem: RoundProblem, bound: Ints) -> None:
        rules, options = problem.rules, problem.options
        self._name, about = rules.name, options_in_rules(problem)
        refers = about >= 0
        signed = np.zeros(rules.count, dtype=bool)
        signed[rules.row[refers & (rules.value < 0)]] = True
        self._rows = np.flatnonzero(np.isfinite(rules.upper) & ~signed)
        entries = rules.value[refers], (rules.row[refers], about[refers])
        use = sparse.csr_array(entries, shape=(rules.count, options.count))
        self._use = sparse.csc_array(use[self._rows]) if self._rows.size else None
        relaxed = rules.upper.astype(np.float64)
        helps = np.flatnonzero((rules.kind == RULE_U) & (rules.value < 0))
        more = -rules.value[helps] * rules.aux_upper[rules.index[helps]]
        np.add.at(relaxed, rules.row[helps], more)
        self._left = relaxed[self._rows]
        if self._use is not None and bound.size:
            self._left -= np.asarray(self._use[:, bound].sum(axis=1)).reshape(-1)

    def _least(self, options: Ints) -> Floats:
        assert self._use is not None
        return np.asarray(self._use[:, options].toarray().min(axis=1))

    def broken_by(self, options: Ints) -> str | None:
        """Return the rule that every option breaks next to what is taken, or None."""
        if self._use is None:
            return None
        least = self._least(options)
        over = np.flatnonzero((least > FEASIBILITY) & (least > self._left + FEASIBILITY))
        return self._name[self._rows[over[0]]] if over.size else None

    def take(self, options: Ints) -> None:
        """Count the least use of a job with these options."""
        if self._use is not None:
            self._left -= self._least(options)
