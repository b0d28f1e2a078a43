"""Policy ``gandiva`` with packing: pairs are those of the trials, parted when they do not pay."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from morph_opt.core.domain import Trace
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import require_pair_speeds
from morph_opt.inputs.traces.twins.gavel import gavel_twin
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.gandiva.packed import PackedSlices, PackingTask, by_trial
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Shared
from morph_opt.simulation.runs.result import ReplayResult
from tests.engine.packing_toys import PairedToys
from tests.engine.toys import cluster, job
from tests.policies import worlds

CONFIG = ReplayConfig(restart_s=20.0)
SPEEDS = PairedToys({"m": 2.0, "n": 1.0}, counts=(1, 2))


@pytest.mark.parametrize("seed", range(30))
def test_pairs_are_those_of_the_trials(seed: int) -> None:
    """A model per job, with a utilisation u: two copies keep 1 / u of their speeds in sum."""
    draw = random.Random(seed)
    count, gpus = draw.randint(2, 9), draw.choice([1, 2, 4])
    names = [f"j{i}" for i in range(count)]
    utilisation = {i: draw.choice([0.2, 0.5, 0.9, 1.0]) for i in range(count)}
    gang = {i: draw.choice([1, 1, 2]) if gpus > 1 else 1 for i in range(count)}
    kept = {
        (i, j): (draw.uniform(0.2, 1.0), draw.uniform(0.2, 1.0))
        for i in range(count)
        for j in range(i + 1, count)
        if draw.random() < 0.7
    }
    slower = {(f"m{i}", f"m{i}"): 2 * utilisation[i] for i in range(count)}
    for (i, j), (one, other) in kept.items():
        slower[f"m{i}", f"m{j}"], slower[f"m{j}", f"m{i}"] = 1 / one, 1 / other
    speeds = PairedToys({f"m{i}": 1.0 for i in range(count)}, counts=(1, 2), slower=slower)
    task = PackingTask(gpus, utilisation, kept, gang)
    jobs = [worlds.queued(name, gang[i], model=f"m{i}") for i, name in enumerate(names)]
    policy = PackedSlices(speeds, speeds)
    where = cluster(1, gpus)
    decided = policy.decide(worlds.state(where, *jobs)).allocation
    wanted = {frozenset((names[i], names[j])) for i, j in by_trial(task)[1]}
    assert {frozenset(group) for group in policy._groups.values() if len(group) > 1} == wanted
    for held in decided.assignments:
        assert held.partner is None or frozenset((held.job, held.partner)) in wanted
        assert held.partner is not None or not any(held.job in pair for pair in wanted)


def run(*work: tuple[str, int], nodes: int = 1, cpus: int = 128, **other: Any) -> ReplayResult:
    """Jobs of (model, iterations) on nodes of one GPU."""
    jobs = [
        job(f"j{i}", 0.0, iterations, model=model, **other)
        for i, (model, iterations) in enumerate(work)
    ]
    policy = PackedSlices(SPEEDS, SPEEDS)
    return replay(Trace.of("toys", jobs), cluster(nodes, 1, cpus=cpus), policy, SPEEDS, CONFIG)


def shared(found: ReplayResult) -> list[tuple[float, str, str | None]]:
    return [(e.time_s, e.job, e.partner) for e in found.events if isinstance(e, Shared)]


def test_two_on_one_gpu_share_it_to_the_end() -> None:
    """m takes 2.5 s instead of 2 next to m: 60 + 20 + 100 x 2.5 s, without a second start."""
    found = run(("m", 100), ("m", 100))
    assert [record.finish_s for record in found.history.jobs] == [330.0, 330.0]
    assert [record.restarts for record in found.history.jobs] == [0, 0]


def test_a_pair_is_parted_when_there_are_gpus_for_both() -> None:
    """j1 and j2 share; j0 is complete at 60 + 20 + 2 x 20 = 120, and one of them takes its GPU."""
    found = run(("n", 40), ("m", 100), ("m", 100), nodes=2)
    first, second = shared(found)[:2]
    assert {first[1], second[1]} == {"j1", "j2"}
    assert [at for at, _, partner in shared(found)[2:] if partner is None] == [120.0]
    stopped, stayed = sorted(r.finish_s or 0.0 for r in found.history.jobs if r.job.name != "j0")[
        ::-1
    ]
    # Until 120: 40 s at 2.5 s, 16 iterations; 84 are left at 2 s, of one after 20 s of start-up.
    assert (stayed, stopped) == (120.0 + 168.0, 120.0 + 20.0 + 168.0)


def test_jobs_that_cannot_share_take_turns() -> None:
    for found in (
        run(("n", 200), ("n", 200)),  # nobody measured n next to n
        run(("m", 100), ("m", 100), guaranteed=True),
    ):
        assert found.summary["completed"] == 2
        assert not shared(found)


def test_a_pair_without_cpus_for_both_is_parted_and_not_tried_again() -> None:
    """Two jobs of 5 CPUs on a node with 8: one waits a round, then they take turns."""
    found = run(("m", 300), ("m", 300), cpus=8, cpus_per_gpu=5)
    assert not shared(found)
    one, two = (record.finish_s or 0.0 for record in found.history.jobs)
    assert abs(one - two) <= 120.0, "neither waits for the other's end"


def test_a_mixed_cluster_is_packed_within_its_capacity() -> None:
    trace, speeds = gavel_twin(0)
    jobs = [replace(one, submission_s=one.submission_s / 20) for one in trace.jobs[:24]]
    config = ReplayConfig(interval_s=120.0, restart_s=20.0, until_s=9000.0)
    where = load_cluster("1x4:V100+1x4:P100+1x4:K80")
    found = replay(
        Trace.of("twin", jobs),
        where,
        worlds.Watched(
            lambda: PackedSlices(speeds, require_pair_speeds(speeds), any_affinity=True)
        ),
        speeds,
        config,
    )
    assert found.summary["rounds_over_capacity"] == 0
    assert len({name for _, name, _ in shared(found)}) >= 4
