"""Rounds that need no solve: what is claimed is the optimum, and only where it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations.round.check import check
from morph_opt.core.domain import JobState, RoundState
from morph_opt.scheduling.decision.at_best import at_best
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import ExactMip
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.policies.objectives.plain import Jct, Lookahead, Throughput
from morph_opt.scheduling.solvers.highs import HighsSolver
from morph_opt.scheduling.solvers.outcome import Limits
from tests.policies.worlds import LINEAR, cluster, queued, random_world, running, state

WHOLE, HALF = {0: [0, 1, 2, 3]}, {0: [0, 1]}
ALONE = running("a", WHOLE)


def claimed(before: RoundState, objective: object = None, **told: object) -> bool:
    """Whether the round is said to need no solve."""
    poser = RoundPoser(LINEAR, objective or Jct(), **told)  # type: ignore[arg-type]
    return at_best(poser.pose(before)) is not None


def test_job_on_its_whole_node_is_at_its_best() -> None:
    assert claimed(state(cluster(4), ALONE))
    assert claimed(state(cluster(4), ALONE), Throughput())


@pytest.mark.parametrize(
    "jobs",
    [
        (running("a", HALF),),  # four GPUs are faster than two
        (running("a", HALF), running("b", {0: [2, 3]})),  # so they are for either
        (ALONE, queued("b", 1)),  # one waits
        (replace(ALONE, job=replace(ALONE.job, guaranteed=True)),),  # a promise
        (replace(ALONE, restart_left_s=50.0, restart_s=10.0),),  # starting anew is ready sooner
    ],
)
def test_at_best_is_not_claimed_if_a_better_option_may_exist(jobs: tuple[JobState, ...]) -> None:
    assert not claimed(state(cluster(4), *jobs))


def test_at_best_is_not_claimed_with_gpu_prices_or_rules() -> None:
    before = state(cluster(4), ALONE)
    assert not claimed(before, Lookahead())
    assert not claimed(before, rules=OperatorRules(tighter_packing=True))


@pytest.mark.parametrize("objective", [Jct(), Throughput()], ids=["jct", "throughput"])
def test_at_best_claims_equal_the_exact_optimum(objective: Jct | Throughput) -> None:
    """On random states with those that wait left out; many claims are met, and all hold."""
    met = 0
    for seed in range(150):
        table, world = random_world(np.random.default_rng((seed, 47)))
        before = replace(world, jobs=tuple(s for s in world.jobs if s.running is not None))
        posed = RoundPoser(table, objective).pose(before)
        found = at_best(posed) if before.jobs else None
        if found is None or found.selection is None:
            continue
        met += 1
        check(posed.problem, found.selection)
        exact = ExactMip(HighsSolver()).solve(posed, Limits(gap=0.0, time_s=3600.0))
        assert exact.selection is not None
        value = found.selection.value(posed.worth)
        assert value == found.outcome.bound == found.outcome.objective
        assert exact.selection.value(posed.worth) == pytest.approx(value, rel=1e-9)
    assert met >= 10
