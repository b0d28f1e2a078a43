"""The search with hindsight: plans by hand, against all plans of tiny traces, and in the engine."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from itertools import permutations, product
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.hindsight import cli, search
from benchmarks.hindsight.plan import Course, Follower, Plan, Run, Segment, Way, Work, tidied
from benchmarks.hindsight.planned import Planned, due_by_name, plan_of
from benchmarks.hindsight.search import Found
from morph_opt.core.domain import Cluster, ExecutionPlan, NodeType, Shape, Span, Trace
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.metrics.bounds.demands import job_demands
from morph_opt.simulation.metrics.bounds.lower import avg_jct_lower_bound
from tests.engine.toys import ToySpeeds, cluster, random_trace


def work_of(
    ways: list[list[Way]], release: list[int], nodes: list[int], startup_s: float = 0.0
) -> Work:
    rounds = np.asarray(release)
    startups = np.full(len(ways), startup_s)
    return Work(
        rounds,
        60.0 * rounds,
        startups,
        startups,
        tuple(map(tuple, ways)),
        np.asarray(nodes),
        np.zeros(len(nodes), dtype=np.int64),
        60.0,
    )


def way(work_s: float, *parts: int) -> Way:
    return Way((parts,), work_s, 0)


def whole(*ways: int, blocks: bool = False) -> Plan:
    """Jobs in the order of their numbers, none stopped."""
    return Plan([(j, 0) for j in range(len(ways))], [[Segment(w, 0, blocks)] for w in ways])


def followed(work: Work, plan: Plan) -> Course:
    course = Follower(work).follow(plan)
    assert course is not None
    return course


def test_segments_start_where_they_fit_in_the_order_of_the_plan() -> None:
    """Nodes of 4 and 2, all at round 1. A holds 3 of the first to round 3, B both GPUs of the
    second, where it has least to spare, to 5. 2 + 2 needs both nodes: 5. 1 GPU passes it at once,
    unless 2 + 2 blocks: then it starts with it.
    """
    ways = [[way(110.0, 3)], [way(240.0, 2)], [way(60.0, 2, 2)], [way(60.0, 1)]]
    work = work_of(ways, [1, 1, 1, 1], [4, 2])
    course = followed(work, whole(0, 0, 0, 0))
    assert course.runs[0, 0] == Run(1, 1, ((0, 3),))
    assert course.runs[1, 0] == Run(1, 1, ((1, 2),))
    assert course.runs[2, 0] == Run(5, 1, ((1, 2), (0, 2)))
    assert course.runs[3, 0] == Run(1, 1, ((0, 1),))
    assert course.total_s == 110.0 + 240.0 + (240.0 + 60.0) + 60.0
    assert followed(work, whole(0, 0, 0, 0, blocks=True)).runs[3, 0].start == 5


def test_a_stop_costs_a_startup_and_what_is_behind_it_comes_first() -> None:
    """One GPU, start-ups of 30 s. A, 300 s, is stopped after 2 rounds, 90 s into its work; B of
    60 s runs in rounds 2 and 3; A needs 30 + 210 s more from round 4 on.
    """
    work = work_of([[way(300.0, 1)], [way(60.0, 1)]], [0, 1], [1], 30.0)
    plan = Plan([(0, 0), (1, 0), (0, 1)], [[Segment(0, 2, False), Segment(0, 0, False)], [STAYS]])
    course = followed(work, plan)
    assert {place: run.start for place, run in course.runs.items()} == {
        (0, 0): 0, (1, 0): 2, (0, 1): 4,
    }  # fmt: skip
    assert course.runs[0, 1].ready == 2
    assert course.total_s == (240.0 + 240.0) + (120.0 + 90.0 - 60.0)
    assert Follower(work).follow(plan, course.total_s - 1.0) is None


STAYS = Segment(0, 0, False)


def test_a_segment_goes_where_it_is_to_be_or_else_anywhere_in_a_shape_as_fast() -> None:
    """Two nodes of 2. The second job is to be on node 1, and is; 3 GPUs fit as 2 + 1 alone; of two
    shapes that are as fast the first that fits is taken.
    """
    both = Way(((2,), (1, 1)), 600.0, 0)
    work = work_of([[way(600.0, 1)], [way(600.0, 1)], [both]], [0, 0, 0], [2, 2])
    plan = whole(0, 0, 0)
    plan.segments[1][0] = Segment(0, 0, False, ((1, 1),))
    runs = followed(work, plan).runs
    assert (runs[0, 0].spots, runs[1, 0].spots) == (((0, 1),), ((1, 1),))
    assert runs[2, 0] == Run(0, 0, ((0, 1), (1, 1)))
    plan.segments[1][0] = STAYS
    assert followed(work, plan).runs[2, 0] == Run(0, 0, ((1, 2),))


def test_a_tidy_plan_has_the_same_course_by_its_starts() -> None:
    """The stop behind the end of the first job leaves with the segment after it."""
    work = work_of([[way(60.0, 1)], [way(60.0, 1)]], [1, 0], [1])
    plan = Plan([(0, 0), (0, 1), (1, 0)], [[Segment(0, 9, False), STAYS], [STAYS]])
    course = followed(work, plan)
    tidy = tidied(plan, course)
    assert tidy.order == [(1, 0), (0, 0)]
    assert tidy.segments[0] == [Segment(0, 0, False, ((0, 1),))]
    assert followed(work, tidy) == course


def best_of_all(work: Work) -> float:
    """Least mean over all orders and ways without stops.

    Of plans that stop no job on one node, one of these is best if segments may block (Giffler and
    Thompson 1960: then jobs start in the order of the plan).
    """
    best, jobs = np.inf, range(len(work.ways))
    for order, blocks in product(permutations(jobs), (False, True)):
        for ways in product(*(range(len(mine)) for mine in work.ways)):
            plan = Plan([(job, 0) for job in order], [[Segment(w, 0, blocks)] for w in ways])
            best = min(best, followed(work, plan).total_s / len(jobs))
    return best


def by_size(work: Work) -> Plan:
    """Jobs with the least work first, in the configuration with the least work, none stopped."""
    least = [
        min((way.gpus * way.work_s, index) for index, way in enumerate(ways)) for ways in work.ways
    ]
    order = sorted(range(len(least)), key=lambda job: least[job])
    return Plan([(job, 0) for job in order], [[Segment(way, 0, False)] for _, way in least])


def searched(work: Work, blocks: int, steps: int) -> Found:
    found = search.begin(work, by_size(work))
    for _ in range(blocks):
        better = search.block(work, found, steps)
        assert better.mean_s <= found.mean_s
        found = better
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_search_finds_no_worse_than_the_best_of_all_plans_of_tiny_traces(seed: int) -> None:
    """And, where a stop costs more than jobs last, that one."""
    draw = np.random.default_rng(seed)
    seconds = draw.integers(60, 600, 4).tolist()
    ways = [[way(s / gpus**0.8, gpus) for gpus in (1, 3)] for s in seconds]
    release = draw.integers(0, 6, 4).tolist()
    free, costly = (work_of(ways, release, [4], startup_s) for startup_s in (0.0, 5000.0))
    assert searched(free, 4, 500).mean_s <= best_of_all(free) + 1e-9
    assert searched(costly, 4, 500).mean_s == pytest.approx(best_of_all(costly))


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
    """One GPU of each type: no worse than all orders and types, and the engine's figure of it."""
    trace, nodes = random_trace(seed, 5, span_s=900), load_cluster("1x1:V100+1x1:K80")
    speeds, config = TwoTypes(), ReplayConfig(interval_s=180.0)
    work = Work.of(trace, nodes, speeds, config)
    assert {way.node_class for ways in work.ways for way in ways} == {0, 1}
    found = searched(work, 3, 500)
    assert found.mean_s <= best_of_all(work) + 1e-9
    assert replayed(trace, nodes, speeds, found.plan, config) == pytest.approx(found.mean_s)


def replayed(
    trace: Trace, nodes: Cluster, speeds: SpeedModel, plan: Plan, config: ReplayConfig
) -> float:
    work = Work.of(trace, nodes, speeds, config)
    due = due_by_name(trace, work, plan, followed(work, plan))
    summary = replay(trace, nodes, Planned(speeds, due), speeds, config).summary
    assert summary["completed"] == len(trace.jobs)
    return summary["avg_jct_s"]


def toy() -> tuple[Trace, SpeedModel, Cluster]:
    return random_trace(1, 8, span_s=600), ToySpeeds(), cluster(2, 4)


@pytest.mark.parametrize("seed", range(4))
def test_any_plan_is_what_the_engine_does(seed: int) -> None:
    """Random orders, configurations and stops; all starts cost their own seconds.

    Of a job whose next segment is like the last one and begins at once, the engine sees no stop.
    """
    draw = np.random.default_rng(seed)
    trace, speeds, nodes = toy()
    config = ReplayConfig(restart_s=70.0, first_start_s=20.0)
    work = Work.of(trace, nodes, speeds, config)
    segments = [
        [
            Segment((first + index) % len(ways), int(draw.integers(1, 9)), bool(draw.integers(2)))
            for first in draw.integers(len(ways), size=1).tolist()
            for index in range(min(3, len(ways)))
        ]
        for ways in work.ways
    ]
    for mine in segments:
        mine[-1] = mine[-1]._replace(rounds=0)
    order = [(job, index) for job, mine in enumerate(segments) for index in range(len(mine))]
    draw.shuffle(order)
    plan = Plan([(int(job), int(index)) for job, index in order], segments)
    course = followed(work, plan)
    assert len(course.runs) > len(segments)
    mean_s = replayed(trace, nodes, speeds, plan, config)
    assert mean_s == pytest.approx(course.total_s / len(segments))


@pytest.mark.parametrize("objective", ["jct", "throughput"])
def test_a_replay_is_a_plan(objective: str) -> None:
    """To the second, with the jobs that it stops and those that it gives something else."""
    trace, speeds, nodes = random_trace(2, 12, span_s=300), ToySpeeds(), cluster(2, 4)
    config = ReplayConfig(restart_s=5.0)
    policy = make_policy("milp", speeds, PolicyOptions(objective=objective))
    done = replay(trace, nodes, policy, speeds, config)
    work = Work.of(trace, nodes, speeds, config)
    plan = plan_of(trace, work, config, done.events)
    assert len(plan.order) > len(trace.jobs)
    assert followed(work, plan).total_s / len(trace.jobs) == pytest.approx(
        done.summary["avg_jct_s"]
    )


def test_a_search_goes_on_where_it_ended(tmp_path, monkeypatch) -> None:
    """A block and two more are three in one go, to the byte; no less than the bound."""
    trace, speeds, nodes = toy()
    loaded = cli.load_trace("naive", seed=0)
    monkeypatch.setattr(
        cli, "load_trace", lambda *_, **__: replace(loaded, trace=trace, truth=speeds)
    )
    toys = SimpleNamespace(cluster=nodes, engine=ReplayConfig())
    monkeypatch.setattr(cli, "scenario_of", lambda *_: toys)
    monkeypatch.setattr(cli, "block", lambda work, found: search.block(work, found, 300))
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
