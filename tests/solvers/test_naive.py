"""The ten-job trace on every adapter: the same optimum in each round, a replay to the end."""

from __future__ import annotations

import warnings
from functools import cache

import pytest

from benchmarks.instances.rounds import model_of, replayed_states
from formulations.linear_model import LinearModel
from morph_opt.core.domain import default_cluster
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import installed, make_solver

EXACT = Limits(gap=0.0, time_s=600.0)


@cache
def rounds() -> tuple[tuple[LinearModel, float], ...]:
    """Every sixth round with the optimum that HiGHS finds."""
    states, speeds = replayed_states("naive", 0, "milp", "throughput")
    models = [model_of(state, speeds, "throughput")[1] for state in states[::6]]
    return tuple((model, make_solver("highs").solve(model, EXACT).objective) for model in models)


@pytest.mark.parametrize("name", installed())
def test_same_optimum_in_every_round(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # first import of old bindings
        solver = make_solver(name)
    assert len(rounds()) > 5
    for model, best in rounds():
        outcome = solver.solve(model, EXACT)
        assert outcome.usable, outcome
        assert outcome.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("name", installed())
def test_a_replay_runs_to_the_end(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make_solver(name)
    loaded = load_trace("naive")
    policy = make_policy("milp", loaded.truth, PolicyOptions(solver=name))
    summary = replay(loaded.trace, default_cluster(), policy, loaded.truth).summary
    assert summary["completed"] == len(loaded.trace.jobs)
    assert summary["rounds_over_capacity"] == 0
    assert summary["fallback_rounds"] == 0
