"""Where the rounds come from: states kept from replays, and several of them set side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from formulations.linear_model import LinearModel
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import (
    A800_NODE,
    Assignment,
    Cluster,
    JobState,
    Placement,
    RoundState,
    default_cluster,
)
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip, whole_model
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_objective, make_policy
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver


@dataclass
class _Keeper(Policy):
    """A policy that keeps what it is asked and asks another one."""

    inner: Policy
    states: list[RoundState] = field(default_factory=list)

    remembers = True
    """Sees every round."""

    def __post_init__(self) -> None:
        self.name = self.inner.name

    def decide(self, state: RoundState) -> Decision:
        self.states.append(state)
        return self.inner.decide(state)


def replayed_states(
    trace: str, seed: int, policy: str, objective: str
) -> tuple[list[RoundState], SpeedModel]:
    """States of all rounds of a replay on the default cluster, and the speeds it ran by."""
    loaded = load_trace(trace, seed=seed)
    keeper = _Keeper(
        make_policy(policy, loaded.truth, PolicyOptions(objective=objective, seed=seed))
    )
    replay(loaded.trace, default_cluster(), keeper, loaded.truth)
    return [state for state in keeper.states if state.jobs], loaded.truth


def by_load(states: Sequence[RoundState], quantile: float) -> RoundState:
    """The state at this quantile of the GPUs that active jobs request; 1.0 is the heaviest."""
    order = sorted(states, key=lambda state: (requested_gpus(state), state.index))
    return order[round(quantile * (len(order) - 1))]


def requested_gpus(state: RoundState) -> int:
    """GPUs that all active jobs together asked for."""
    return sum(held.job.requested_gpus for held in state.jobs)


def side_by_side(states: Sequence[RoundState]) -> RoundState:
    """One round of a cluster that is as large as those of all states together.

    Jobs keep what they hold; their names say from which part they come. Nodes that were
    unavailable stay so.
    """
    jobs: list[JobState] = []
    unavailable: set[int] = set()
    failed: set[int] = set()
    first = 0
    for part, state in enumerate(states):
        jobs.extend(_moved(held, part, first) for held in state.jobs)
        unavailable |= {first + node for node in state.unavailable}
        failed |= {first + node for node in state.failed}
        first += len(state.cluster.nodes)
    latest = max(state.time_s for state in states)
    return RoundState(
        0,
        latest,
        states[0].interval_s,
        Cluster.uniform(first, A800_NODE),
        tuple(sorted(jobs, key=lambda held: (held.job.submission_s, held.job.name))),
        frozenset(unavailable),
        frozenset(failed),
    )


def _moved(state: JobState, part: int, first: int) -> JobState:
    name = f"part{part}-{state.job.name}"
    running = state.running
    if running is not None:
        spots = tuple((first + node, gpus) for node, gpus in running.placement.parts)
        running = Assignment(name, running.plan, Placement(spots))
    return replace(state, job=replace(state.job, name=name), running=running)


def model_of(
    state: RoundState, speeds: SpeedModel, objective: str, formulation: str = "node_pattern"
) -> tuple[RoundProblem, LinearModel]:
    """The round of a state and the last model that the policy solves for it, in its scale.

    The last one carries the whole ranking: rows of guarantees and of the goals before it.
    """
    posed = RoundPoser(speeds, make_objective(objective, speeds)).pose(state)
    method = ExactMip(make_solver("highs"), formulation)
    return posed.problem, whole_model(posed, method, Limits(gap=1e-3, time_s=60.0))[0]
