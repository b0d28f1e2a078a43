"""Ties between waiting jobs of equal value: the earlier job is served.

Steps of the ladder and solvers choose among optima in ways of their own. Whatever they chose for
jobs whose options have equal values, places and demands, the better choices go to those that
arrived earlier, then to those first by name, unless an operator's rule forbids it. This changes no
value or demand, so that bounds and placements remain valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.round.candidates import CandidateTable
from formulations.round.check import RuleError, check
from formulations.round.rules import broken_rule, options_in_rules
from formulations.round.tables import NONE, Level, Selection
from formulations.tolerances import SAME_VALUE
from morph_opt.scheduling.decision.params import TIES
from morph_opt.scheduling.decision.pose import PosedRound


def serve_earlier(posed: PosedRound, levels: Sequence[Level], selection: Selection) -> Selection:
    """Return the decision in which earlier jobs have the better choices of equal jobs.

    Parameters
    ----------
    levels
        Goals that the decision was made by; jobs are equal only by all of them.
    """
    starts = ~posed.problem.jobs.running & (selection.choice != NONE)
    if not starts.any():
        return selection
    levels = list({id(level): level for level in levels}.values())
    for jobs, options in _equal_jobs(posed, levels, starts):
        selection = _Group(posed, levels, jobs, options).dealt(selection)
    return selection


def _equal_jobs(
    posed: PosedRound, levels: Sequence[Level], starts: Bools
) -> list[tuple[list[int], dict[int, Ints]]]:
    """Return groups of waiting jobs with equal options, and each job's options in one order."""
    problem, view = posed.problem, posed.view
    table, first, filled = problem.candidates, view.offset[:-1], np.diff(view.offset) > 0
    values = [_rounded(level.value[: table.count]) for level in levels]
    # Only jobs that are worth as much at best as one that starts are compared.
    best = np.full(first.size, np.nan)
    best[filled] = np.maximum.reduceat(values[-1], first[filled]) if filled.any() else np.nan
    like = np.flatnonzero(~problem.jobs.running & np.isin(best, best[starts]))
    _, kind, count = np.unique(best[like], return_inverse=True, return_counts=True)
    jobs = [job for job in like[count[kind] > 1].tolist() if view.keeps[job] is None]
    if len(jobs) < 2:
        return []
    columns = [*values, table.node_set, _kinds(table, np.isin(table.job, jobs))]
    speed = problem.jobs.request_iteration_s[table.job] / table.iteration_s
    groups: dict[bytes, dict[int, Ints]] = {}
    for job in jobs:
        own = slice(int(view.offset[job]), int(view.offset[job + 1]))
        mine = [column[own] for column in columns]
        if problem.jobs.guaranteed[job]:
            mine.insert(0, _rounded(speed[own]))
        order = np.lexsort(mine)
        key = b"".join(column[order].tobytes() for column in mine)
        groups.setdefault(key, {})[job] = own.start + order
    return [
        (list(group), group)
        for group in groups.values()
        if len(group) > 1 and starts[[*group]].any()
    ]


def _rounded(value: Floats) -> Floats:
    """Return values rounded to `SAME_VALUE`, relative to each."""
    mantissa, exponent = np.frexp(value)
    rounded: Floats = np.ldexp(np.round(mantissa / SAME_VALUE) * SAME_VALUE, exponent)
    return rounded + 0.0  # no negative zero


def _kinds(table: CandidateTable, wanted: Bools) -> Ints:
    """Return a number per candidate, equal for equal parts, scopes and side demands."""
    t, row = table.templates
    kind, known = np.full(t.count, -1), dict[tuple[bytes, ...], int]()
    for at in np.unique(row[wanted]).tolist():
        parts = slice(int(t.part_start[at]), int(t.part_start[at + 1]))
        each = (t.node_class, t.scope, t.strict, t.loose, t.side)
        shape = tuple(column[at].tobytes() for column in each)
        shape += t.part_gpus[parts].tobytes(), t.part_class[parts].tobytes()
        kind[at] = known.setdefault(shape, len(known))
    found: Ints = kind[row]
    return found


@dataclass(frozen=True, slots=True)
class _Group:
    """Jobs with equal options.

    Parameters
    ----------
    posed, levels
        Round and its goals.
    jobs
        The jobs.
    options
        Options of each job; equal ones have equal positions.
    """

    posed: PosedRound
    levels: Sequence[Level]
    jobs: list[int]
    options: dict[int, Ints]

    def dealt(self, selection: Selection) -> Selection:
        """Deal the choices out anew: all at once, else within tenants, then job by job."""
        count = self.posed.problem.candidates.count
        alone = [job for job in self.jobs if selection.choice[job] < count]
        found = self._dealt(selection, alone)
        if found is None:
            found, tenants = selection, dict[str, list[int]]()
            for job in alone:
                tenants.setdefault(self.posed.view.states[job].job.tenant, []).append(job)
            for jobs in tenants.values():
                found = self._dealt(found, jobs) or found
        elif len(alone) == len(self.jobs):
            return found
        return self._exchanged(found)

    def _in_order(self, jobs: list[int]) -> list[int]:
        """Return jobs by arrival, then name."""
        states = self.posed.view.states
        return sorted(jobs, key=lambda job: (states[job].job.submission_s, states[job].job.name))

    def _rank(self, choice: Ints, job: int) -> tuple[bool, float, float, int]:
        """Return the sort key of a job's choice, better choices first."""
        option, problem = int(choice[job]), self.posed.problem
        if option == NONE:
            return True, 0.0, 0.0, 0
        row = problem.options.members.of(option, job)
        alone = int(problem.options.members.alone[row])
        value = float(_rounded(self.levels[-1].worth[row : row + 1])[0])
        return False, -value, -float(problem.candidates.gpus[alone]), self._place(job, alone)

    def _place(self, job: int, option: int) -> int:
        """Return the position of an option among its job's options."""
        return int(np.flatnonzero(self.options[job] == option)[0])

    def _dealt(self, selection: Selection, jobs: list[int]) -> Selection | None:
        """Return the decision with the choices of jobs in order, None if it breaks a rule."""
        ranks = {job: self._rank(selection.choice, job) for job in jobs}
        theirs, order = sorted(jobs, key=ranks.__getitem__), self._in_order(jobs)
        if [ranks[job] for job in order] == [ranks[job] for job in theirs]:
            return selection
        dealt, nodes = selection.choice.copy(), list(selection.nodes)
        for job, other in zip(order, theirs, strict=True):
            option = int(selection.choice[other])
            if option != NONE:
                option = int(self.options[job][self._place(other, option)])
            dealt[job], nodes[job] = option, selection.nodes[other]
        found = Selection(dealt, tuple(nodes))
        return found if broken_rule(self.posed.problem, found) is None else None

    def _exchanged(self, selection: Selection) -> Selection:
        """Exchange choices of two jobs at a time, where that breaks no rule."""
        order, left = self._in_order(self.jobs), TIES.exchanges
        holders = [job for job in order if selection.choice[job] != NONE]
        position = {job: at for at, job in enumerate(order)}
        refused: set[tuple[object, ...]] = set()
        kinds = self._rule_kinds()
        for early in order:
            mine = self._rank(selection.choice, early)
            ranks = {
                job: self._rank(selection.choice, job)
                for job in holders
                if position[job] > position[early]
            }
            if not ranks:
                break
            for late in sorted(ranks, key=lambda job: (ranks[job], -position[job])):
                # Jobs that share an option have partners of their own, so each is tried.
                alone = max(selection.choice[[early, late]]) < self.posed.problem.candidates.count
                case = (kinds[early], kinds[late], mine, ranks[late], alone or (early, late))
                if ranks[late] >= mine or case in refused:
                    continue
                if left == 0:
                    return selection
                left -= 1
                found = self._exchange(selection, early, late)
                if found is None:
                    refused.add(case)
                    continue
                selection = found
                if kinds[early] != kinds[late]:  # else no row has changed
                    refused.clear()
                if selection.choice[late] == NONE:
                    holders[holders.index(late)] = early
                break
        return selection

    def _rule_kinds(self) -> dict[int, bytes]:
        """Return a key per job, equal if operator's rules count its options alike."""
        problem, offset = self.posed.problem, self.posed.view.offset
        rules, option = problem.rules, options_in_rules(problem)
        # Rows about one job alone are alike if their names and limits are.
        alone = (option >= 0) & (option < problem.candidates.count)
        owner = np.where(alone, problem.candidates.job[np.where(alone, option, 0)], -1)
        lowest, highest = np.full(rules.count, problem.jobs.count), np.full(rules.count, -1)
        np.minimum.at(lowest, rules.row, owner)
        np.maximum.at(highest, rules.row, owner)
        number, known = np.arange(rules.count), dict[tuple[str, float, float], int]()
        for row in np.flatnonzero((lowest == highest) & (lowest >= 0)).tolist():
            limits = rules.name[row], float(rules.lower[row]), float(rules.upper[row])
            number[row] = known.setdefault(limits, -1 - len(known))
        row_of = number[rules.row]
        by = np.argsort(option, kind="stable")
        bounds = np.searchsorted(option[by], [offset[self.jobs], offset[np.add(self.jobs, 1)]])
        found = {}
        for job, first, last in zip(self.jobs, *bounds.tolist(), strict=True):
            at = by[first:last]
            place = np.argsort(self.options[job])[option[at] - offset[job]]
            alike = np.lexsort((rules.value[at], row_of[at], place))
            columns = (row_of[at], rules.value[at], place)
            found[job] = b"".join(column[alike].tobytes() for column in columns)
        return found

    def _exchange(self, selection: Selection, early: int, late: int) -> Selection | None:
        """Return the decision with two jobs' choices exchanged, None if it is not as good."""
        choice, nodes = selection.choice.copy(), list(selection.nodes)
        if choice[early] == choice[late]:
            return None
        own = {early: NONE, late: NONE}
        for job, other in ((early, late), (late, early)):
            option = int(selection.choice[other])
            nodes[job] = selection.nodes[other]
            if option != NONE:
                made = self._counterpart(option, other, job)
                if made is None:
                    return None
                own[job] = choice[selection.choice == option] = made  # its partners as well
        for job, option in own.items():
            choice[job] = option
        found = Selection(choice, tuple(nodes))
        for level in self.levels:
            before, after = selection.value(level), found.value(level)
            if abs(after - before) > SAME_VALUE * max(1.0, abs(before)):
                return None
        try:
            check(self.posed.problem, found)
        except RuleError:
            return None
        return found

    def _counterpart(self, option: int, other: int, job: int) -> int | None:
        """Return the option with ``job`` in the place of ``other``, None if there is none."""
        members = self.posed.problem.options.members
        first, last = np.searchsorted(members.option, [option, option + 1]).tolist()
        wanted = []
        for row in range(first, last):
            who, alone = int(members.job[row]), int(members.alone[row])
            if who == other:
                who, alone = job, int(self.options[job][self._place(other, alone)])
            wanted.append((who, alone))
        if len(wanted) == 1:
            return wanted[0][1]
        for near in members.option[members.job == job].tolist():
            first, last = np.searchsorted(members.option, [near, near + 1]).tolist()
            theirs = zip(
                members.job[first:last].tolist(), members.alone[first:last].tolist(), strict=True
            )
            if sorted(theirs) == sorted(wanted):
                return int(near)
        return None
