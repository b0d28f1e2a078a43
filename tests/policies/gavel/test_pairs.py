"""Gavel's ``gandiva`` in the engine: pairs by hand, shares of groups, strict replays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import Trace
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import pair_speeds
from morph_opt.inputs.traces.twins.gavel import gavel_twin
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.gavel.pairs import (
    EqualParts,
    GavelPairs,
    RandomPairs,
    gavel_shares,
)
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Shared
from morph_opt.simulation.runs.result import ReplayResult
from tests.engine.packing_toys import PairedToys
from tests.engine.toys import cluster, job
from tests.policies import worlds

MIXED = load_cluster("1x4:V100+1x4:P100+2x2:K80")
GANG = {"a": 1, "b": 1, "c": 2, "d": 2}


def test_pairs_are_of_equal_gangs_only_while_too_much_is_asked_for() -> None:
    drawn = RandomPairs(0)
    assert drawn.groups(GANG, 6, lambda *_: 1.5) == [("a",), ("b",), ("c",), ("d",)]
    found = {frozenset(group) for group in drawn.groups(GANG, 5, lambda *_: 1.5)}
    for _ in range(20):
        again = {frozenset(group) for group in drawn.groups(GANG, 5, lambda *_: 1.5)}
        assert {pair for pair in found if len(pair) == 2} <= again, "who is paired stays so"
        found = again
    assert found == {frozenset("ab"), frozenset("cd")}


def test_pairs_below_one_are_tried_and_parted_and_who_cannot_share_is_not_tried() -> None:
    drawn = RandomPairs(3)
    tried = [drawn.groups({"a": 1, "b": 1}, 1, lambda *_: 0.9) for _ in range(3)]
    assert all(len(groups) == 1 for groups in tried), "parted and, alone, drawn again"
    assert drawn.groups({"a": 1, "b": 1}, 1, lambda *_: 0.0) == [("a",), ("b",)]
    left = drawn.groups({"a": 1, "c": 1}, 1, lambda *_: 0.0)
    assert left == [("a",), ("c",)]


def test_shares_are_those_of_the_published_cases() -> None:
    """Gangs of 1, 2 and 4 on 8 GPUs of one type: 8/3, 8/6 and 8/12, at most all the time."""
    jobs = [worlds.queued(name, gpus) for name, gpus in (("a", 1), ("b", 2), ("c", 4))]
    book = EqualParts()
    book.observe(worlds.state(worlds.cluster(4, 4), *jobs))
    assert book.shares is not None
    assert book.shares.x.ravel().tolist() == [1.0, 1.0, pytest.approx(2 / 3)]
    wanted = gavel_shares(["a", "b", "c"], {"a": 1, "b": 2, "c": 4}, {"x": 8})
    assert book.shares.x.ravel().tolist() == [row["x"] for row in wanted.values()]


SPEEDS = PairedToys({"m": 2.0, "n": 1.0}, counts=(1, 2))
CONFIG = ReplayConfig(interval_s=360.0, restart_s=20.0)


def toys(*models: str, guaranteed: bool = False) -> ReplayResult:
    jobs = [job(f"j{i}", 0.0, 400, model=m, guaranteed=guaranteed) for i, m in enumerate(models)]
    policy = GavelPairs(SPEEDS, SPEEDS)
    return replay(Trace.of("toys", jobs), cluster(1, 1), policy, SPEEDS, CONFIG)


def test_two_on_one_gpu_share_it() -> None:
    """m needs 2.5 s next to m: 360 + 20 + 400 x 2.5 s for both; taking turns takes longer."""
    found = toys("m", "m")
    assert [record.finish_s for record in found.history.jobs] == [1380.0, 1380.0]
    assert found.summary["packed_jobs"] == 2


@pytest.mark.parametrize(("models", "guaranteed"), [(("n", "n"), False), (("m", "m"), True)])
def test_unmeasured_and_guaranteed_jobs_take_turns(
    models: tuple[str, ...], guaranteed: bool
) -> None:
    found = toys(*models, guaranteed=guaranteed)
    assert found.summary["completed"] == 2
    assert not [event for event in found.events if isinstance(event, Shared)]


def test_a_pair_needs_cpus_for_both() -> None:
    """One GPU with 8 CPUs, jobs of 5: the partner waits for its turn."""
    jobs = [job(f"j{i}", 0.0, 400, cpus_per_gpu=5) for i in range(2)]
    where = cluster(1, 1, cpus=8)
    found = replay(Trace.of("t", jobs), where, GavelPairs(SPEEDS, SPEEDS), SPEEDS, CONFIG)
    assert found.summary["completed"] == 2
    assert not [event for event in found.events if isinstance(event, Shared)]


@pytest.mark.parametrize("interval_s", [120.0, 360.0])
def test_a_mixed_cluster_is_packed_within_its_capacity(interval_s: float) -> None:
    trace, speeds = gavel_twin(0)
    jobs = [replace(one, submission_s=one.submission_s / 20) for one in trace.jobs[:24]]
    policy = worlds.Watched(lambda: GavelPairs(speeds, pair_speeds(speeds), 5))
    config = ReplayConfig(interval_s=interval_s, restart_s=20.0, until_s=30 * 360.0)
    found = replay(Trace.of("twin", jobs), MIXED, policy, speeds, config)
    assert found.summary["rounds_over_capacity"] == 0
    assert sum(record.shared_gpu_s > 0 for record in found.history.jobs) >= 4
