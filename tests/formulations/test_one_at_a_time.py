"""Rounds in which no two jobs fit at once: the least time left goes first, whatever its GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import RoundState
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from tests.policies.worlds import cluster, counts, queued, running, speeds, state

GANGS = speeds({"m": {"3+2": 10.0, "3+3": 10.0, "4+4": 10.0}})


def started(before: RoundState, policy: str, objective: str = "auto") -> set[str]:
    made = make_policy(policy, GANGS, PolicyOptions(objective=objective))
    return set(counts(made.decide(before).allocation))


POLICIES = [("milp", "auto"), ("milp", "lookahead"), ("greedy:lookahead", "auto")]


@pytest.mark.parametrize(("policy", "objective"), POLICIES)
def test_the_least_time_left_goes_first(policy: str, objective: str) -> None:
    jobs = [
        queued(f"g{gpus}", gpus, iterations=many) for gpus, many in ((5, 400), (6, 390), (8, 360))
    ]
    assert started(state(cluster(4, 4), *jobs), policy, objective) == {"g8"}


@pytest.mark.parametrize(("policy", "objective"), POLICIES[:2])
def test_a_job_is_stopped_only_if_that_saves_more_than_its_next_start(
    policy: str, objective: str
) -> None:
    runs = replace(running("r", {0: [0, 1, 2], 1: [0, 1]}, iterations=400), restart_s=300.0)
    for many, first in ((371, "r"), (360, "w")):
        waits = replace(queued("w", 8, iterations=many), restart_s=0.0)
        assert started(state(cluster(4, 4), runs, waits), policy, objective) == {first}
