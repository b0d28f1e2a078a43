"""Wrapper that puts baselines under operator's rules."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np

from formulations.round.check import check
from formulations.round.rule_table import RULE_S
from formulations.round.rules import broken_rule
from formulations.round.tables import NONE
from morph_opt.core.domain import Allocation, Assignment, JobState, RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.decision.placement import to_allocation
from morph_opt.scheduling.decision.rules.compile import apply_rules, ranks_of
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import NodePreference
from morph_opt.scheduling.decision.rules.recheck import require_kept
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport, decision_of
from morph_opt.scheduling.policies.filling import Filling


class Ruled(Policy):
    """A policy whose decisions are carried out as far as rules allow.

    Jobs that a rule keeps in place stay. The policy then decides the jobs of each priority, highest
    first. What it starts is started on nodes that the rules allow; it decides again without the
    jobs for which there are none, until it starts no such job.

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

    @property
    def remembers(self) -> bool:
        """Whether a decision depends on earlier rounds."""
        return self._policy.remembers

    def notes(self) -> tuple[str, ...]:
        """Return the lines of the policy that decides."""
        return self._policy.notes()

    def begins_at(self, clock_s: float) -> None:
        """Pass on the instant of second 0."""
        self._policy.begins_at(clock_s)

    def observe(self, state: RoundState) -> None:
        """See a round that is decided elsewhere."""
        self._policy.observe(state)

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        began = time.perf_counter()
        view = self._builder.view(state)
        view = replace(view, problem=apply_rules(view, state, self._rules).problem)
        round_ = _Round(state, self._rules, Filling(view))
        asked = Decision(Allocation(()))
        for level in round_.levels:
            refused = True
            while refused:
                asked = self._asked(round_.shown(level))
                refused = round_.take(asked.allocation.assignments)
        if self._policy.remembers:
            self._policy.observe(state)
        selection = round_.filling.selection()
        allocation = to_allocation(state, view, selection)
        check(view.problem, selection)
        require_kept(state, allocation, self._rules, view)
        report = RoundReport(
            "heuristic" if state.jobs else "idle",
            candidates=view.problem.candidates.count,
            place_ms=1e3 * (time.perf_counter() - began),
        )
        return Decision(allocation, report, reason=round_.reason(asked.reason))

    def _asked(self, state: RoundState) -> Decision:
        """Return the policy's decision for a state that it does not remember."""
        policy = deepcopy(self._policy) if self._policy.remembers else self._policy
        return decision_of(policy, state)


class _Round:
    """One round while it is filled.

    Attributes
    ----------
    filling
        Placements so far.
    levels
        Priorities of jobs that wait, highest first.
    """

    def __init__(self, state: RoundState, rules: OperatorRules, filling: Filling) -> None:
        self.filling = filling
        self._state = state
        self._place = {known.job.name: job for job, known in enumerate(state.jobs)}
        self._refused: set[str] = set()
        self._priority = ranks_of(state, rules)[0].tolist()
        self.levels = sorted(set(self._priority), reverse=True)
        types = [kind.name for kind in state.cluster.node_types]
        self._preferred = [
            (rule.jobs, {types.index(name): at for at, name in enumerate(rule.node_types)})
            for rule in rules.rules
            if isinstance(rule, NodePreference) and set(rule.node_types) <= set(types)
        ]
        table = filling.problem.rules
        stays = (table.kind == RULE_S) & (table.lower[table.row] >= 1.0)
        for job in np.unique(table.index[stays]).tolist():
            filling.keep(job)

    def shown(self, level: int) -> RoundState:
        """Return the state without jobs that wait, are of lower priority or were refused.

        Jobs that were started are shown as running.
        """
        state, filling = self._state, self.filling
        started = to_allocation(state, filling.view, filling.selection()).by_job()
        jobs: list[JobState] = []
        for job, known in enumerate(state.jobs):
            name = known.job.name
            if name in self._refused:
                continue
            if known.running is None and name in started:
                at = state.time_s
                first = at if known.first_start_s is None else known.first_start_s
                jobs.append(
                    replace(
                        known,
                        running=started[name],
                        first_start_s=first,
                        last_start_s=at,
                        starts=known.starts + 1,
                    )
                )
            elif known.running is not None or self._priority[job] >= level:
                jobs.append(known)
        return replace(state, jobs=tuple(jobs))

    def reason(self, asked: Callable[[str], str] | None) -> Callable[[str], str] | None:
        """Return the policy's reasons, and the reasons of jobs that the rules keep back."""
        if asked is None:
            return None

        def reason(name: str) -> str:
            if name in self._refused:
                return f"{name}: waits; the policy would start it, and a rule is in the way"
            return asked(name)

        return reason

    def take(self, granted: tuple[Assignment, ...]) -> bool:
        """Start and keep granted jobs; return whether some grant could not be carried out."""
        refused = False
        # Jobs that run first, as in the states that policies see: by their submission.
        order = sorted(granted, key=lambda one: self._order(one.job))
        for one in order:
            job = self._place[one.job]
            if self.filling.choice[job] != NONE:
                continue
            if not self._granted(job, one):
                self._refused.add(one.job)
                refused = True
        return refused

    def _order(self, name: str) -> tuple[bool, int, int]:
        job = self._place[name]
        return self._state.jobs[job].running is None, -self._priority[job], job

    def _granted(self, job: int, one: Assignment) -> bool:
        """Keep or start a job with its granted number of GPUs; return whether that was possible."""
        filling, table = self.filling, self.filling.problem.candidates
        if self._state.jobs[job].running == one:
            return self._allowed(job, int(filling.problem.options.stay[job])) and filling.keep(job)
        parts, classes = one.placement.shape.parts, self._state.cluster.node_types
        wanted = self._state.cluster.nodes[one.placement.nodes[0]].type
        places = next((p for names, p in self._preferred if matches(one.job, names)), {})

        def rank(candidate: int) -> tuple[int, bool, bool, int]:
            at = int(table.node_class[candidate])
            same = classes[at] == wanted
            return places.get(at, 0), not same, table.parts(candidate) != parts, candidate

        mine = [k for k in filling.candidates(job) if table.gpus[k] == one.placement.gpus]
        mine = [k for k in mine if self._allowed(job, k)]
        return filling.start(job, sorted(mine, key=rank))

    def _allowed(self, job: int, option: int) -> bool:
        """Return whether no rule is broken by an option of a job next to what is placed."""
        filling = self.filling
        before = filling.choice[job]
        filling.choice[job] = option
        broken = broken_rule(filling.problem, filling.selection())
        filling.choice[job] = before
        return broken is None
