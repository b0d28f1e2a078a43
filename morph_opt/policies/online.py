"""A policy whose belief about speed learns from the jobs that it sees running."""

from __future__ import annotations

from collections.abc import Callable

from morph_opt.domain import InputError, JobState, RoundState
from morph_opt.perf.fitting.online import OnlineModel
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision, Policy


class OnlinePolicy:
    """Feeds observed iteration times to a belief, then lets a policy decide with it.

    What a job's training log would show is taken from the truth: the iteration time of every job
    that has run past its start-up, in the round after it ran. Jobs on nodes of several types are
    not observed, because their time tells nothing of one type.

    The decision depends on the states of *all* rounds so far. A resumed replay shows the policy
    the recorded rounds through `observe`, so it believes and decides as the uninterrupted one.

    Parameters
    ----------
    belief
        Learns; nobody else may feed it.
    truth
        Where observed times come from.
    make
        Makes the deciding policy from the belief. Called again whenever the belief has changed,
        since policies cache what they believe; so it must not make policies with a memory.

    Raises
    ------
    InputError
        If the policy has a memory of its own.
    """

    def __init__(
        self, belief: OnlineModel, truth: SpeedModel, make: Callable[[SpeedModel], Policy]
    ) -> None:
        self._belief = belief
        self._truth = truth
        self._make = make
        self._policy = make(belief)
        self._version = belief.version
        if getattr(self._policy, "remembers", hasattr(self._policy, "observe")):
            raise InputError(
                f"the policy {self._policy.name!r} remembers earlier rounds and cannot be remade "
                "when the belief changes",
                field="--online-fit",
            )

    @property
    def name(self) -> str:
        """That of the deciding policy."""
        return self._policy.name

    def observe(self, state: RoundState) -> None:
        """Take in what the running jobs show; of a round that is decided elsewhere, too."""
        for job in state.jobs:
            self._observe(job, state)

    def decide(self, state: RoundState) -> Decision:
        """Observe, then decide."""
        self.observe(state)
        if self._version != self._belief.version:
            self._policy = self._make(self._belief)
            self._version = self._belief.version
        return self._policy.decide(state)

    def _observe(self, job: JobState, state: RoundState) -> None:
        held, since = job.running, job.last_start_s
        if held is None or since is None or state.time_s <= since + job.restart_s:
            return
        types = {state.cluster.nodes[node].type for node in held.placement.nodes}
        if len(types) > 1:
            return
        node_type = types.pop()
        where = (node_type, held.placement.shape, held.plan)
        span = state.cluster.span(held.placement.nodes)
        seconds = self._truth.iteration_s(job.job.model, *where, span)
        if seconds is not None:
            self._belief.observe(job.job.model, *where, span, seconds)
