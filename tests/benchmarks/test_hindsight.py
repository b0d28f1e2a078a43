"""The search with hindsight: plans by hand, against all plans of tiny traces, and in the engine."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.hindsight import cli, search
from benchmarks.hindsight.plan import Entry, Plan, Way, Work
from benchmarks.hindsight.planned import Planned, due_by_name
from morph_opt.clusters import load_cluster
from morph_opt.domain import Cluster, ExecutionPlan, NodeType, Shape, Span, Trace
from morph_opt.engine.config import ReplayConfig
from morph_opt.metrics.bounds.demands import job_demands
from morph_opt.metrics.bounds.lower import avg_jct_lower_bound
from morph_opt.perf.speed import SpeedModel
from morph_opt.replay import replay
from tests.engine.toys import ToySpeeds, cluster, random_trace


def work_of(ways: list[list[Way]], release: list[int], nodes: list[int]) -> Work:
    rounds = np.asarray(release)
    return Work(
        rounds,
        60.0 * rounds,
        tuple(map(tuple, ways)),
        np.asarray(nodes),
        np.zeros(len(nodes), dtype=np.int64),
        60.0,
    )


def test_a_way_starts_where_its_parts_fit_to_its_end() -> None:
    """Nodes of 4 and 2. A holds 3 of the first in rounds 1 and 2, B both GPUs of the second in 1 to
    4: it fits there with less to spare. 2 + 2 and 2 + 1 need both nodes: round 5, and without B 3
    and at once, 2 beside 1.
    """
    a, b = Way((3,), 110.0, 2, 0), Way((2,), 240.0, 4, 0)
    both, uneven = Way((2, 2), 60.0, 1, 0), Way((2, 1), 60.0, 1, 0)
    plan = Plan(work_of([[a], [b], [both], [uneven]], [1, 1, 1, 1], [4, 2]), 20)
    plan.put(0, 0, plan.earliest(a, 1, 20))
    assert plan.entries[0] == Entry(1, 0, (0,))
    plan.put(1, 0, plan.earliest(b, 1, 20))
    assert plan.entries[1] == Entry(1, 0, (1,))
    assert plan.earliest(both, 1, 20) == plan.earliest(uneven, 1, 20) == 5
    assert plan.earliest(both, 1, 5) is None
    assert plan.earliest(Way((2,), 60.0, 1, 0), 1, 20) == 3
    plan.remove(1)
    assert plan.earliest(both, 1, 20) == 3
    assert plan.earliest(uneven, 1, 20) == 1
    assert plan.end_s[0] == 60.0 + 110.0


@pytest.mark.parametrize("seed", range(6))
def test_the_earliest_start_is_that_of_the_definition(seed: int) -> None:
    """Round by round: the least free GPUs of each node to the end, parts to the largest."""
    draw = np.random.default_rng(seed)
    plan = Plan(work_of([[Way((1,), 60.0, 1, 0)]], [0], [4, 4, 3]), 400)
    plan._free[:] = draw.integers(0, 5, plan._free.shape)
    for parts in ((2,), (3, 1), (2, 2), (1, 1, 1), (4, 2)):
        way = Way(parts, 150.0, int(draw.integers(1, 4)), 0)
        fits = []
        for first in range(5, 300):
            least = sorted(plan._free[:, first : first + way.rounds].min(axis=1), reverse=True)
            if all(p <= q for p, q in zip(parts, least, strict=False)):
                fits.append(first)
        assert plan.earliest(way, 5, 300) == (fits[0] if fits else None)


def best_of_all(work: Work) -> float:
    """Least mean over all orders and ways: each job as early as it fits.

    Of plans that stop nobody on one node, one of these is best (Giffler and Thompson 1960).
    """
    best, jobs = np.inf, range(len(work.ways))
    for order in permutations(jobs):
        for ways in product(*(range(len(work.ways[job])) for job in order)):
            plan = Plan(work, 200)
            for job, way in zip(order, ways, strict=True):
                start = plan.earliest(work.ways[job][way], int(work.release[job]), 200)
                assert start is not None
                plan.put(job, way, start)
            best = min(best, plan.mean_s)
    return best


@pytest.mark.parametrize("seed", range(3))
def test_a_search_finds_the_best_of_all_plans_of_tiny_traces(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ways = []
    for _ in range(4):
        seconds = float(draw.integers(60, 600))
        ways.append(
            [
                Way((gpus,), seconds / gpus**0.8, int(np.ceil(seconds / gpus**0.8 / 60)), 0)
                for gpus in (1, 3)
            ]
        )
    work = work_of(ways, draw.integers(0, 6, 4).tolist(), [4])
    found = search.begin(work)
    for _ in range(2):
        better = search.block(work, found, 150)
        assert better.mean_s <= found.mean_s
        found = better
    assert found.mean_s == pytest.approx(best_of_all(work))


@dataclass(frozen=True)
class TwoTypes(ToySpeeds):
    """Three times as slow on a K80."""

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        found = super().iteration_s(model, node_type, shape, plan, span)
        return None if found is None else found * (3.0 if node_type.gpu_type.name == "K80" else 1.0)


@pytest.mark.parametrize("seed", range(2))
def test_plans_choose_types_and_are_what_the_engine_does_in_rounds_of_the_trace(seed: int) -> None:
    """One GPU of each type: the best of all orders and types, and the engine's figure of it."""
    trace, nodes = random_trace(seed, 5, span_s=900), load_cluster("1x1:V100+1x1:K80")
    speeds, config = TwoTypes(), ReplayConfig(interval_s=180.0)
    work = Work.of(trace, nodes, speeds, config)
    assert {way.node_class for ways in work.ways for way in ways} == {0, 1}
    found = search.begin(work)
    for _ in range(6):
        found = search.block(work, found, 100)
    assert found.mean_s == pytest.approx(best_of_all(work))
    policy = Planned(speeds, due_by_name(trace, work, found.entries))
    done = replay(trace, nodes, policy, speeds, config)
    assert done.summary["avg_jct_s"] == pytest.approx(found.mean_s)


def toy() -> tuple[Trace, SpeedModel, Cluster]:
    return random_trace(1, 8, span_s=600), ToySpeeds(), cluster(2, 4)


def test_a_plan_is_what_the_engine_does() -> None:
    trace, speeds, nodes = toy()
    work = Work.of(trace, nodes, speeds, ReplayConfig())
    found = search.block(work, search.begin(work), 100)
    policy = Planned(speeds, due_by_name(trace, work, found.entries))
    done = replay(trace, nodes, policy, speeds)
    assert done.summary["avg_jct_s"] == pytest.approx(found.mean_s)
    ends = [record.finish_s for record in done.history.jobs]
    assert ends == pytest.approx(_ends(work, found.entries))


def _ends(work: Work, entries: tuple[Entry, ...]) -> list[float]:
    return [
        60.0 * entry.start + ways[entry.way].duration_s
        for ways, entry in zip(work.ways, entries, strict=True)
    ]


def test_a_search_goes_on_where_it_ended(tmp_path, monkeypatch) -> None:
    """A block and two more are three in one go, to the byte; no less than the bound."""
    trace, speeds, nodes = toy()
    loaded = cli.load_trace("naive", seed=0)
    monkeypatch.setattr(
        cli, "load_trace", lambda *_, **__: replace(loaded, trace=trace, truth=speeds)
    )
    toys = SimpleNamespace(cluster=nodes, engine=ReplayConfig())
    monkeypatch.setattr(cli, "scenario_of", lambda *_: toys)
    monkeypatch.setattr(cli, "block", lambda work, found: search.block(work, found, 40))
    for folder, goes in (("two", ("1", "3")), ("one", ("3",))):
        for blocks in goes:
            call = ["--trace", "toy", "--blocks", blocks, "--out", str(tmp_path / folder)]
            assert cli.main(call) == 0
    for name in ("search.csv", "README.md", "plans/toy-0.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with (tmp_path / "one" / "search.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    bound_s = avg_jct_lower_bound(job_demands(trace, nodes, speeds, ReplayConfig())).value_s
    assert row["bound_s"] == f"{bound_s:.1f}"
    assert bound_s <= float(row["hindsight_s"]) + 0.05
    assert float(row["hindsight_s"]) == min(float(row["planned_s"]), float(row["auto_s"]))
    assert row["blocks"] == "3"
