"""Rounds of a replay, kept as a policy sees them."""

from __future__ import annotations

import functools

from benchmarks.rounds.report import Setup
from morph_opt.core.domain import RoundState, default_cluster
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig

OBJECTIVES = ("throughput", "jct")


class Keeper(Policy):
    """A policy that keeps the states that it is shown."""

    remembers = True
    """Sees every round."""

    def __init__(self, inner: Policy) -> None:
        self.name = inner.name
        self._inner = inner
        self.states: list[RoundState] = []

    def decide(self, state: RoundState) -> Decision:
        """Keep the state and pass it on."""
        self.states.append(state)
        return self._inner.decide(state)


@functools.cache
def rounds_of(setup: Setup, objective: str) -> tuple[SpeedModel, list[RoundState]]:
    """States of a replay under an objective; replayed once per process."""
    loaded = load_trace(setup.trace)
    policy = make_policy("milp", loaded.truth, PolicyOptions(objective=objective))
    keeper = Keeper(policy)
    config = ReplayConfig(until_s=setup.until_s)
    replay(loaded.trace, default_cluster(), keeper, loaded.truth, config)
    return loaded.truth, keeper.states[:: setup.every]
