"""The result table."""

from __future__ import annotations

import pytest

from morph_opt.core.domain import Trace
from morph_opt.replay.run import replay
from morph_opt.replay.terminal import result_table
from morph_opt.simulation.engine.config import ReplayConfig
from tests.policies.worlds import LINEAR, cluster, job

pytestmark = pytest.mark.parametrize("until_s", [None, 300.0])


def test_a_bound_is_compared_with_complete_runs_only(until_s: float | None) -> None:
    from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy

    trace = Trace.of("t", [job("a", 1), job("b", 1)])
    config = ReplayConfig(interval_s=60.0, restart_s=0.0, until_s=until_s)
    policy = make_policy("fifo", LINEAR, PolicyOptions())
    result = replay(trace, cluster(1), policy, LINEAR, config)
    complete = result.summary["completed"] == result.summary["jobs"]
    assert complete == (until_s is None)
    labels = {"wall_s": 1.0, "peak_rss_mib": 1.0}
    assert ("the lower bound of" in result_table(dict(result.summary) | labels)) == complete
