"""Pairs of jobs as one job of a round: a policy decides on groups, then partners are added.

A group is a job alone, or two jobs with equal gangs. The policy sees the running job of the group.
The partner gets the same GPUs if the pair was measured there and the node has CPUs and host memory
for both; otherwise it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from morph_opt.core.domain import (
    Allocation,
    Assignment,
    ExecutionPlan,
    Job,
    JobState,
    Placement,
    RoundState,
)
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.strict.check import BeliefChecks
from morph_opt.scheduling.strict.rules import StateFacts

Groups = Mapping[str, tuple[str, ...]]
"""Name of a group -> its one or two jobs."""


class Sharing:
    """Grouping of jobs within rounds.

    Parameters
    ----------
    belief, pairs
        Speeds that the policy goes by, alone and of pairs.
    """

    def __init__(self, belief: SpeedModel, pairs: PairSpeeds) -> None:
        self._checks = BeliefChecks(belief)
        self._tables = CandidateBuilder(belief, requests_only=True)
        self._pairs = pairs

    def grouped(
        self, state: RoundState, groups: Groups, executed_s: Mapping[str, float] | None = None
    ) -> RoundState:
        """Return the round with one job per group, named like the group.

        Parameters
        ----------
        executed_s
            Seconds for which each group ran; None for the time of its running job.
        """
        known = {one.job.name: one for one in state.jobs}
        leaders = {name: _leader(members, known) for name, members in groups.items()}
        ran_s = executed_s or {name: known.executed_s for name, known in leaders.items()}
        return replace(
            state,
            jobs=tuple(_named(leader, name, ran_s[name]) for name, leader in leaders.items()),
        )

    def joined(self, state: RoundState, groups: Groups, allocation: Allocation) -> Allocation:
        """Return the allocation of jobs that follows from an allocation of groups."""
        known = {one.job.name: one for one in state.jobs}
        check, before = self._checks.on(state.cluster), StateFacts.of(state)
        given: list[tuple[Assignment, JobState | None]] = []
        for held in allocation.assignments:
            members = groups[held.job]
            leader = _leader(members, known)
            other = next((known[name] for name in members if name != leader.job.name), None)
            given.append((replace(held, job=leader.job.name, partner=None), other))
        check.check((held for held, _ in given), before)
        made: list[Assignment] = []
        for held, other in given:
            beside = None if other is None else self._beside(known[held.job], held, other, state)
            pair = () if beside is None else (replace(held, partner=beside.job), beside)
            made += (held,) if check.add(pair, before) else pair or (held,)
        return Allocation(tuple(made))

    def _beside(
        self, leader: JobState, held: Assignment, other: JobState, state: RoundState
    ) -> Assignment | None:
        """Return the partner's assignment; None if the pair was not measured on such GPUs."""
        there, running = held.placement, other.running
        if running is not None and running.placement == there:
            plan = running.plan
        elif state.unavailable.isdisjoint(there.nodes):
            plan = self._tables.all_of(other.job, state.cluster).rows[0].row.plan
        else:
            return None  # no job starts on a drained node
        jobs, plans = (leader.job, other.job), (held.plan, plan)
        if self.pace_s(jobs, plans, there, state) is None:
            return None
        return Assignment(other.job.name, plan, there, held.job)

    def pace_s(
        self,
        jobs: tuple[Job, Job],
        plans: tuple[ExecutionPlan, ExecutionPlan],
        there: Placement,
        state: RoundState,
    ) -> tuple[float, float] | None:
        """Return measured seconds per iteration of two jobs on the same GPUs, or None."""
        if len(there.nodes) > 1:
            return None
        kind = state.cluster.nodes[there.nodes[0]].type
        models = jobs[0].model, jobs[1].model
        return self._pairs.paired_iteration_s(models, plans, kind, there.shape)


def _leader(members: tuple[str, ...], known: Mapping[str, JobState]) -> JobState:
    """Return the running job of a group, the first if both run or none does."""
    return next((known[m] for m in members if known[m].running is not None), known[members[0]])


def _named(known: JobState, name: str, executed_s: float) -> JobState:
    """Return a job under the name of its group."""
    return replace(
        known,
        job=replace(known.job, name=name),
        executed_s=executed_s,
        running=None if known.running is None else replace(known.running, job=name, partner=None),
        last_held=None if known.last_held is None else replace(known.last_held, job=name),
    )
