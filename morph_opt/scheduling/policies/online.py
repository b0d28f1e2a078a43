"""Policy whose belief about speeds learns from the jobs that it sees running."""

from __future__ import annotations

from collections.abc import Callable

from morph_opt.core.domain import InputError, JobState, NodeType, RoundState
from morph_opt.inputs.perf.speed import LearningModel, SpeedModel, pair_speeds
from morph_opt.inputs.perf.tables.tried import TriedModel
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.scheduling.policies.base import Decision, Policy


class OnlinePolicy(Policy):
    """Policy that feeds observed iteration times to a belief before it decides.

    The truth takes the place of a job's training log: it gives the iteration time of every job that
    has run past its start-up, in the round after it ran. Jobs on nodes of several types are not
    observed, because their time depends on several types. Two jobs on the same GPUs give the times
    of the pair, once both have run past their start-up; only a belief that tries pairs sees them.

    The decision depends on the states of *all* rounds so far. A resumed replay shows the policy
    the recorded rounds through `observe`, so it believes and decides as the uninterrupted one.

    Parameters
    ----------
    belief
        Speed model that learns; only this policy may feed it.
    truth
        Source of observed times.
    make
        Function that makes the deciding policy from the belief. It is called again whenever the
        belief has changed, since policies cache it; so the policy must have no memory.
    option
        Option that is named if a policy is refused.

    Raises
    ------
    InputError
        If the policy has a memory of its own.
    """

    def __init__(
        self,
        belief: LearningModel,
        truth: SpeedModel,
        make: Callable[[SpeedModel], Policy],
        option: str = "--online-fit",
    ) -> None:
        self._belief = belief
        self._truth = truth
        self._pairs = pair_speeds(truth)
        self._make = make
        self._policy = make(belief)
        self._version = belief.version
        self.name = self._policy.name
        if self._policy.remembers:
            raise InputError(
                f"the policy {self._policy.name!r} remembers earlier rounds and cannot be remade "
                "when the belief changes",
                field=option,
            )

    def observe(self, state: RoundState) -> None:
        """Learn from the running jobs, also in a round that is decided elsewhere."""
        by_name = {job.job.name: job for job in state.jobs}
        for job in state.jobs:
            if job.running is None or not _has_run(job, state):
                continue
            types = {state.cluster.nodes[node].type for node in job.running.placement.nodes}
            if len(types) > 1:
                continue
            if job.running.partner is None:
                self._observe(job, state, types.pop())
            elif job.job.name < job.running.partner:
                self._observe_pair(job, by_name[job.running.partner], state, types.pop())

    def decide(self, state: RoundState) -> Decision:
        """Observe, then decide."""
        self.observe(state)
        if self._version != self._belief.version:
            self._policy = self._make(self._belief)
            self._version = self._belief.version
        return self._policy.decide(state)

    def _observe(self, job: JobState, state: RoundState, node_type: NodeType) -> None:
        held = job.running
        assert held is not None
        where = (node_type, held.placement.shape, held.plan)
        span = topology_of(state.cluster).span(held.placement.nodes)
        seconds = self._truth.iteration_s(job.job.model, *where, span)
        if seconds is not None:
            self._belief.observe(job.job.model, *where, span, seconds)

    def _observe_pair(
        self, one: JobState, two: JobState, state: RoundState, node_type: NodeType
    ) -> None:
        held, beside = one.running, two.running
        assert held is not None
        if self._pairs is None or beside is None or not _has_run(two, state):
            return
        models, plans = (one.job.model, two.job.model), (held.plan, beside.plan)
        where = (node_type, held.placement.shape)
        pace_s = self._pairs.paired_iteration_s(models, plans, *where)
        if pace_s is not None and isinstance(self._belief, TriedModel):
            self._belief.observe_pair(models, plans, *where, pace_s)


def _has_run(job: JobState, state: RoundState) -> bool:
    """Return whether a job has made iterations on the GPUs that it holds."""
    since = job.last_start_s
    return since is not None and state.time_s > since + job.restart_s
