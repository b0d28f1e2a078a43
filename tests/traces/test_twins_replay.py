"""Twin and original replayed under the same policy: average JCT within 20 %."""

from __future__ import annotations

import pytest

from morph_opt.core.domain import default_cluster
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy

CASES = [
    ("base", "milp", "jct"),
    ("base", "fifo:skip", ""),
    ("base", "srtf", ""),
    ("base", "equal_split", ""),
    ("bp", "srtf", ""),
    ("naive", "milp", "jct"),
    ("naive", "milp", "throughput"),
    ("naive", "fifo:skip", ""),
    ("naive", "srtf", ""),
    ("naive", "equal_split", ""),
]
"""Trace, policy, objective. Baselines do not look at guarantees, so ``mt`` is ``base`` to them."""


def average_jct_s(spec: str, policy: str, objective: str) -> float:
    loaded = load_trace(spec)
    options = PolicyOptions(objective=objective) if objective else PolicyOptions()
    decider = make_policy(policy, loaded.truth, options)
    result = replay(loaded.trace, default_cluster(), decider, loaded.truth)
    value = result.summary["avg_jct_s"]
    assert isinstance(value, float)
    return value


@pytest.mark.usefixtures("public_data")
@pytest.mark.parametrize(("name", "policy", "objective"), CASES)
def test_average_jct_within_20_percent(name: str, policy: str, objective: str) -> None:
    twin = average_jct_s(name, policy, objective)
    original = average_jct_s(f"morphling/{name}", policy, objective)
    assert twin == pytest.approx(original, rel=0.20)
