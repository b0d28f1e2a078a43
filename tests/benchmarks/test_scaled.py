"""Rounds made from seeds: what a busy one begins with."""

from __future__ import annotations

from benchmarks.instances.scaled import BUSY_SHARE, busy_round, first_round, speeds_of
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES


def test_a_busy_round_has_its_share_of_jobs_on_nearly_all_gpus() -> None:
    state = busy_round(96, 3)
    running = [known.running for known in state.jobs if known.running is not None]
    # In so small a cluster some find no room where they are drawn.
    assert 0.6 * len(state.jobs) < len(running) <= round(BUSY_SHARE * len(state.jobs))
    # Tables are refused where nodes have less than what their holds take.
    posed = RoundPoser(speeds_of(state.cluster), OBJECTIVES["throughput"]()).pose(state)
    held = posed.problem.holds.demand[:, 0].sum()
    assert held == sum(one.placement.gpus for one in running)
    assert 0.6 * 96 < held <= 96
    assert any(len(one.placement.parts) > 1 for one in running)
    assert first_round(96, 3, kind="busy") == state != busy_round(96, 3, seed=1)
    assert not any(known.running for known in first_round(96, 3).jobs)
