"""Wrapper that puts policies under operator's rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from formulations.arrays import Bools
from formulations.parameters import Params, number
from formulations.round.check import check
from formulations.round.rule_table import RULE_S, RULE_X
from formulations.round.rules import broken_row, options_in_rules
from formulations.round.tables import NONE, RoundProblem
from formulations.tolerances import SAME_SPEED
from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    InputError,
    Job,
    JobState,
    RoundState,
)
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.placement import to_allocation
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.instants import next_change_s
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import OWN, class_of
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import NodePreference
from morph_opt.scheduling.decision.rules.ranks import ranks_of
from morph_opt.scheduling.decision.rules.recheck import require_kept
from morph_opt.scheduling.decision.rules.stranded import PossibleSizes
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport, decision_of
from morph_opt.scheduling.policies.filling import Filling


@dataclass(frozen=True, slots=True)
class RuledParams(Params):
    """Effort of the wrapper."""

    asks: int = number(16, 1)
    """Most times that a policy decides the same jobs on the same nodes anew in a round. The last
    answer is carried out as far as possible."""


EFFORT = RuledParams()


class Ruled(Policy):
    """A policy whose decisions are carried out as far as rules allow.

    Jobs that a rule keeps in place stay. The policy decides the jobs of each rank, highest first,
    and what it decides is carried out as it is where no rule is in the way. Otherwise it decides
    again: without the jobs that no rule lets start, and first on the nodes that a rule leaves to a
    job, with that job in its queue, then on the others without it. So its own order holds among
    the jobs of those nodes. Where it stops a job for others of the same class, that class's jobs
    are kept first.

    Parameters
    ----------
    policy
        Decides; jobs that it starts get the GPUs that it gives them.
    rules
        Rules of every round.
    belief
        Speeds that the policy goes by.
    """

    def __init__(self, policy: Policy, rules: OperatorRules, belief: SpeedModel) -> None:
        self.name = policy.name
        self._policy = policy
        self._rules = rules
        self._builder = CandidateBuilder(belief, prune=False)
        self._possible: tuple[Cluster, PossibleSizes] | None = None
        self._sizes: dict[str, frozenset[int] | None] = {}

    @property
    def remembers(self) -> bool:
        """Whether a decision depends on earlier rounds."""
        return self._policy.remembers

    def notes(self) -> tuple[str, ...]:
        """Return the lines of the policy that decides, and the goals that it does not follow."""
        goals = ("fewer_moves", "tighter_packing")
        passed = [goal for goal in goals if getattr(self._rules, goal)]
        more = f"policy {self.name} does not follow the goals {', '.join(passed)} of the rules"
        return (*self._policy.notes(), *([more] if passed else []))

    def begins_at(self, clock_s: float) -> None:
        """Pass on the instant of second 0."""
        self._policy.begins_at(clock_s)

    def observe(self, state: RoundState) -> None:
        """See a round that is decided elsewhere."""
        self._policy.observe(state)

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`.

        Raises
        ------
        InputError
            If the rules contradict each other in this round.
        """
        began = time.perf_counter()
        view = self._builder.view(state)
        view = replace(view, problem=apply_rules(view, state, self._rules).problem)
        round_ = _Round(state, self._rules, view, self._sizes_of)
        prepared = time.perf_counter()
        asked = [Decision(Allocation(()))]
        for level in round_.levels:
            asked += self._settled(round_, level, view.problem.nodes.open)
            if level != round_.levels[-1]:
                round_.release_below(level)
        if self._policy.remembers:
            self._policy.observe(state)
        selection = round_.filling.selection()
        allocation = to_allocation(state, view, selection)
        placed = time.perf_counter()
        check(view.problem, selection)
        require_kept(state, allocation, self._rules, view)
        last = asked[-1]
        whole = last.allocation.by_job() == allocation.by_job()
        claims = last.report if whole else RoundReport("heuristic" if state.jobs else "idle")
        report = replace(
            claims,
            candidates=view.problem.candidates.count,
            slo_dropped=last.report.slo_dropped,
            slo_restored=last.report.slo_restored,
            candidates_ms=1e3 * (prepared - began),
            place_ms=1e3 * (placed - prepared),
            check_ms=1e3 * (time.perf_counter() - placed),
        )
        instants = [one.next_s for one in asked if one.next_s is not None]
        next_s = min((*instants, next_change_s(self._rules, state)))
        reason = round_.reason(last.reason)
        upcoming = next_s if next_s < np.inf else None
        return Decision(allocation, report, reason=reason, next_s=upcoming)

    def _settled(self, round_: _Round, level: int, among: Bools) -> list[Decision]:
        """Carry out what the policy decides on some nodes; return its answers that were kept.

        Every turn hides or pins a job or leaves nodes to a job, so there are few.
        """
        kept: list[Decision] = []
        held = round_.held(level)
        for turn in range(EFFORT.asks):
            mark = round_.filling.mark()
            asked = self._asked(round_.shown(level, among))
            refused = round_.take(asked.allocation.assignments, among)
            if round_.stops_any(held):
                round_.filling.back_to(mark)
                round_.pin(held)
                held = ()
                continue
            if not refused or turn + 1 == EFFORT.asks:
                return [*kept, asked]
            confined = round_.hide(refused, level, among)
            round_.filling.back_to(mark)
            if confined is not None:
                job, nodes = confined
                kept += self._settled(round_, level, nodes)
                round_.release_off(nodes)
                round_.hidden.add(job)
                among = among & ~nodes
        return kept

    def _sizes_of(self, job: Job, cluster: Cluster) -> frozenset[int] | None:
        """Return the numbers of GPUs on which the rules ever let a job run; None for any."""
        if self._possible is None or self._possible[0] is not cluster:
            self._possible = cluster, PossibleSizes(self._rules, self._builder, cluster)
            self._sizes.clear()
        if job.name not in self._sizes:
            self._sizes[job.name] = self._possible[1].of(job)
        return self._sizes[job.name]

    def _asked(self, state: RoundState) -> Decision:
        """Return the policy's decision for a state that it does not remember."""
        if not state.jobs:
            return Decision(Allocation(()), RoundReport("idle"))
        policy = deepcopy(self._policy) if self._policy.remembers else self._policy
        return decision_of(policy, state)


class _Round:
    """One round while it is filled.

    Attributes
    ----------
    filling
        Placements so far.
    levels
        Ranks of jobs, highest first.
    hidden
        Jobs that the policy is not shown any more.
    """

    def __init__(
        self,
        state: RoundState,
        rules: OperatorRules,
        view: RoundView,
        sizes_of: Callable[[Job, Cluster], frozenset[int] | None],
    ) -> None:
        self.filling = filling = Filling(view)
        self.hidden: set[int] = set()
        self._state, self._problem, self._sizes_of = state, view.problem, sizes_of
        self._place = {known.job.name: job for job, known in enumerate(state.jobs)}
        self._rank: list[int] = ranks_of(state, rules)[0].tolist()
        self.levels = sorted(set(self._rank), reverse=True) or [0]
        classes = (class_of(known.job, rules.classes) for known in state.jobs)
        self._kept = [one is not None and one.preempts != OWN for one in classes]
        types = [kind.name for kind in state.cluster.node_types]
        self._preferred = [
            (rule.jobs, {types.index(name): at for at, name in enumerate(rule.node_types)})
            for rule in rules.rules
            if isinstance(rule, NodePreference) and set(rule.node_types) <= set(types)
        ]
        self._rows = _Rows(view.problem)
        table = view.problem.rules
        stays = (table.kind == RULE_S) & (table.lower[table.row] >= 1.0)
        self._pinned = set(np.unique(table.index[stays]).tolist())
        for job in sorted(self._pinned):
            filling.keep(job)
        row = self._rows.broken(filling.choice)
        if row is not None:
            mine = table.index[(table.row == row) & (table.kind == RULE_S)].tolist()
            names = ", ".join(state.jobs[job].job.name for job in mine[:4])
            rule = f"the operator's rules contradict each other in the round at {state.time_s:g} s"
            about = f"{table.name[row]} of {names}, which another rule keeps in place"
            raise InputError(f"{rule}: {about}", field="rules")

    # --- what the policy sees -----------------------------------------------------------------

    def shown(self, level: int, among: Bools) -> RoundState:
        """Return the state without jobs that wait and are of a lower rank, and without hidden ones.

        Jobs are shown where they were put so far; running ones that may not stay, or whose GPUs
        are given to others, are shown as waiting. Nodes that are closed, not in question or full of
        jobs that must stay take no new job.
        """
        state, filling = self._state, self.filling
        put = to_allocation(state, filling.view, filling.selection()).by_job()
        mark, jobs = filling.mark(), list[JobState]()
        for job, known in enumerate(state.jobs):
            if job in self.hidden:
                continue
            there = put.get(known.job.name)
            if there is not None:
                jobs.append(known if there == known.running else self._started(known, there))
            elif known.running is not None and self._may_stay(job) and filling.keep(job):
                jobs.append(known)
            elif self._rank[job] >= level or known.running is not None:
                waits = replace(known, running=None, restart_left_s=0.0, checkpointed_s=None)
                jobs.append(known if known.running is None else waits)
        filling.back_to(mark)
        away = frozenset(np.flatnonzero(~among | self._full()).tolist())
        return replace(state, jobs=tuple(jobs), unavailable=state.unavailable | away)

    def _full(self) -> Bools:
        """Return the nodes of which jobs that must stay hold all GPUs, shape (N,)."""
        nodes, holds = self._problem.nodes, self._problem.holds
        stay = np.isin(holds.job, sorted(self._pinned))
        held = np.bincount(holds.node[stay], holds.demand[stay, 0], minlength=nodes.count)
        return np.asarray(held >= nodes.capacity[nodes.node_class, 0] - 0.5)

    def _started(self, known: JobState, there: Assignment) -> JobState:
        at = self._state.time_s
        first = at if known.first_start_s is None else known.first_start_s
        return replace(
            known,
            running=there,
            last_held=None,
            checkpointed_s=None,
            first_start_s=first,
            last_start_s=at,
            starts=known.starts + 1,
        )

    def _may_stay(self, job: int) -> bool:
        stay = int(self._problem.options.stay[job])
        return not self._rows.alone[stay] and not self._rows.breaks(self.filling.choice, stay)

    # --- classes ------------------------------------------------------------------------------

    def held(self, level: int) -> tuple[int, ...]:
        """Return the running jobs of a rank that may stay and that their own class may not stop."""
        filling, found = self.filling, list[int]()
        mark = filling.mark()
        ranked = [job for job in filling.running if self._rank[job] == level and self._kept[job]]
        for job in sorted(ranked, key=lambda job: self._state.jobs[job].last_start_s or 0.0):
            if filling.choice[job] == NONE and self._may_stay(job) and filling.keep(job):
                found.append(job)
        filling.back_to(mark)
        return tuple(found)

    def stops_any(self, jobs: Iterable[int]) -> bool:
        """Return whether a running job is stopped, or moved to where it is no faster."""
        choice, problem = self.filling.choice, self._problem
        pace_s = problem.jobs.stay_iteration_s * (1.0 - SAME_SPEED)
        return any(
            choice[job] == NONE
            or (
                choice[job] != problem.options.stay[job]
                and problem.candidates.iteration_s[choice[job]] >= pace_s[job]
            )
            for job in jobs
        )

    def pin(self, jobs: Iterable[int]) -> None:
        """Keep running jobs where they are."""
        for job in jobs:
            if self.filling.keep(job):
                self._pinned.add(job)

    def reason(self, asked: Callable[[str], str] | None) -> Callable[[str], str] | None:
        """Return the policy's reasons, and the reasons of jobs that the rules keep back."""
        if asked is None:
            return None

        def reason(name: str) -> str:
            if self._place.get(name) in self.hidden:
                return f"{name}: waits; the policy would start it, and a rule is in the way"
            return asked(name)

        return reason

    # --- what the policy decides --------------------------------------------------------------

    def take(self, granted: Iterable[Assignment], among: Bools) -> Mapping[int, bool]:
        """Carry out what a policy grants; return the jobs for which that was not possible.

        The value is whether some rule is in the way wherever the job is; else it has no place.
        """
        left = [one for one in granted if self.filling.choice[self._place[one.job]] == NONE]
        # Jobs that run first, as in the states that policies see: by their submission.
        left.sort(key=lambda one: self._order(one.job))
        refused: dict[int, bool] = {}
        while left:
            found = ((self._place[one.job], self._granted(one, among)) for one in left)
            refused = {job: ruled for job, ruled in found if ruled is not None}
            # A job that another one must precede may have been tried before it.
            again = [one for one in left if self._place[one.job] in refused]
            if len(again) == len(left) or not any(refused.values()):
                break
            left = again
        return refused

    def _order(self, name: str) -> tuple[bool, int, int]:
        job = self._place[name]
        return self._state.jobs[job].running is None, -self._rank[job], job

    def _granted(self, one: Assignment, among: Bools) -> bool | None:
        """Keep or start a job as it is granted; return None, or whether a rule is in the way."""
        job, filling = self._place[one.job], self.filling
        if self._state.jobs[job].running == one:
            stay = int(filling.problem.options.stay[job])
            ruled = self._rows.breaks(filling.choice, stay)
            return None if not ruled and filling.keep(job) else ruled
        options = self._ways(job, one)
        allowed = [k for k in options if not self._rows.breaks(filling.choice, k)]
        if not allowed:
            return True
        places = next((p for names, p in self._preferred if matches(one.job, names)), {})
        if not places and any(filling.start_on(job, k, one.placement) for k in allowed):
            return None
        parts, classes = one.placement.shape.parts, self._state.cluster.node_types
        wanted = self._state.cluster.nodes[one.placement.nodes[0]].type
        table = filling.problem.candidates

        def rank(candidate: int) -> tuple[int, bool, bool, int]:
            at = int(table.node_class[candidate])
            same = classes[at] == wanted
            return places.get(at, len(places)), not same, table.parts(candidate) != parts, candidate

        return None if filling.start(job, sorted(allowed, key=rank), among) else False

    def _ways(self, job: int, one: Assignment) -> list[int]:
        """Return the candidates that are meant by a grant: as many GPUs, in the same plan.

        Where the rules never allow that number, those with the next smaller one that they allow,
        or the next larger one if there is none.
        """
        filling, gpus = self.filling, self.filling.problem.candidates.gpus
        size, known = one.placement.gpus, self._state.jobs[job].job
        sizes = self._sizes_of(known, self._state.cluster)
        if sizes and size not in sizes:
            smaller = [possible for possible in sizes if possible < size]
            size = max(smaller) if smaller else min(sizes)
        mine = [k for k in filling.candidates(job) if gpus[k] == size]
        planned = [k for k in mine if filling.view.configuration(job, k).plan == one.plan]
        return planned or mine

    def hide(
        self, refused: Mapping[int, bool], level: int, among: Bools
    ) -> tuple[int, Bools] | None:
        """Hide the jobs that cannot be granted; return a job for which a rule leaves some nodes.

        Running jobs whose move is refused are pinned to their GPUs instead.
        """
        for job in refused:
            if self._state.jobs[job].running is not None and job not in self._pinned:
                if self._may_stay(job):
                    self._pinned.add(job)
                else:
                    self.hidden.add(job)
        waiting = [job for job in refused if job not in self._pinned | self.hidden]
        ruled = [job for job in waiting if refused[job]]
        if ruled:
            # Others for which the same rules leave nothing would be refused one by one.
            others = (job for job in self.filling.waiting if self._rank[job] >= level)
            ruled += [
                job for job in others if self.filling.choice[job] == NONE and self._barred(job)
            ]
            self.hidden.update(ruled)
            return None
        sets, nodes = self._problem.candidates.node_set, self._problem.nodes.sets
        for job in waiting:
            first = self.filling.candidates(job).start
            usable = among & nodes[sets[first]]
            if (usable != among).any():
                return job, usable
        self.hidden.update(waiting)
        return None

    def _barred(self, job: int) -> bool:
        ways = self.filling.candidates(job)
        return all(self._rows.breaks(self.filling.choice, k) for k in ways)

    # --- between the ranks --------------------------------------------------------------------

    def release_below(self, level: int) -> None:
        """Leave it to lower ranks whether their running jobs stay."""
        self._release(lambda job: self._rank[job] < level)

    def release_off(self, nodes: Bools) -> None:
        """Leave it to later answers whether running jobs on other nodes stay."""
        placed = self._state.jobs

        def elsewhere(job: int) -> bool:
            held = placed[job].running
            return held is not None and not nodes[list(held.placement.nodes)].any()

        self._release(elsewhere)

    def _release(self, chosen: Callable[[int], bool]) -> None:
        stays = self._problem.options.stay
        for job in self.filling.running:
            kept = self.filling.choice[job] == stays[job]
            if kept and job not in self._pinned and chosen(job):
                self.filling.give_back(job)


class _Rows:
    """Rows of rules and what single options add to them.

    Attributes
    ----------
    alone
        Whether an option breaks a row by itself, whatever else is decided, shape (O,).
    """

    def __init__(self, problem: RoundProblem) -> None:
        table = self._table = problem.rules
        option = options_in_rules(problem)
        mine = np.flatnonzero(option >= 0)
        mine = mine[np.lexsort((table.row[mine], option[mine]))]
        self._row, self._value = table.row[mine], table.value[mine]
        self._first = np.searchsorted(option[mine], np.arange(problem.options.count + 1))
        self._known: dict[bytes, bool] = {}
        self._of: bytes = b""
        self._chosen = np.zeros(table.count)
        # A row in which another decision makes up for an option does not rule it out.
        signed = np.zeros(table.count, dtype=bool)
        signed[table.row[table.value < 0.0]] = True
        out = (table.upper <= 0.0) & ~signed
        kinds = np.isin(table.kind, (RULE_X, RULE_S))
        self.alone: Bools = np.zeros(problem.options.count, dtype=bool)
        ruled = kinds & out[table.row] & (option >= 0) if table.count else np.zeros(0, dtype=bool)
        self.alone[option[ruled]] = True

    def _after(self, choice: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        """Sum the rows of the decisions so far."""
        key = choice.tobytes()
        if key == self._of:
            return
        self._of, self._known = key, {}
        self._chosen[:] = 0.0
        for option in choice[choice != NONE].tolist():
            own = slice(int(self._first[option]), int(self._first[option + 1]))
            np.add.at(self._chosen, self._row[own], self._value[own])

    def broken(self, choice: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int | None:
        """Return a row that decisions break; None if they break none."""
        if not self._table.count:
            return None
        self._after(choice)
        return broken_row(self._table, self._chosen)

    def breaks(self, choice: np.ndarray[tuple[int], np.dtype[np.int64]], option: int) -> bool:
        """Return whether an option breaks a row next to the decisions so far."""
        if not self._table.count:
            return False
        self._after(choice)
        own = slice(int(self._first[option]), int(self._first[option + 1]))
        # Options with the same entries break the same rows.
        key = self._row[own].tobytes() + self._value[own].tobytes()
        if key not in self._known:
            chosen = self._chosen.copy()
            np.add.at(chosen, self._row[own], self._value[own])
            self._known[key] = broken_row(self._table, chosen) is not None
        return self._known[key]
