"""From a snapshot to the columns of a `RoundProblem`."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from formulations.round.tables import RoundProblem, Scope
from morph_opt.core.domain import (
    A800_NODE,
    Cluster,
    ExecutionPlan,
    JobState,
    Node,
    RoundState,
    SideDemand,
)
from morph_opt.scheduling.decision.candidates.nodes import scopes_of
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from tests.policies.worlds import (
    DP,
    LINEAR,
    cluster,
    job,
    queued,
    random_world,
    running,
    speeds,
    state,
)


def shapes(builder: CandidateBuilder, before: RoundState) -> list[list[str]]:
    """Shape and plan of every candidate by job, as the view explains its indices."""
    view = builder.view(before)
    table = view.problem.candidates
    found: list[list[str]] = [[] for _ in view.states]
    for k, owner in enumerate(table.job.tolist()):
        row = view.configuration(owner, k)
        assert table.parts(k) == row.shape.parts
        assert table.gpus[k] == row.shape.gpus
        assert table.iteration_s[k] == row.iteration_s
        found[owner].append(f"{row.shape} {row.plan}")
    return found


def test_candidates_are_what_fits_the_nodes_and_is_not_dominated() -> None:
    belief = speeds({"m": {"1": 8.0, "2": 9.0, "4": 2.0, "2+2": 2.5, "8": 1.0, "4+4+4": 0.5}})
    before = state(cluster(4, 4), queued("a"), queued("b"))
    builder = CandidateBuilder(belief)
    assert shapes(builder, before) == [["1 dp", "4 dp", "2+2 dp"]] * 2
    everything = CandidateBuilder(belief, prune=False)
    assert shapes(everything, before) == [["1 dp", "2 dp", "4 dp", "2+2 dp"]] * 2


def test_every_node_class_has_its_own_candidates() -> None:
    before = state(cluster(2, 8), queued("a"))
    view = CandidateBuilder(LINEAR).view(before)
    table = view.problem.candidates
    assert list(zip(table.node_class.tolist(), table.gpus.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 1),
        (1, 2),
        (1, 4),
        (1, 8),
    ]
    assert view.problem.nodes.node_class.tolist() == [0, 1]
    assert view.problem.nodes.capacity[:, 0].tolist() == [2.0, 8.0]


def test_columns_of_the_jobs() -> None:
    before = state(
        cluster(8),
        replace(
            running("b", {0: [0, 1, 2, 3]}, 2, guaranteed=True),
            restart_left_s=12.0,
            attained_gpu_s=77.0,
        ),
        replace(queued("a", 2, weight=2.0, submission_s=5.0), iterations_done=25.5),
    )
    jobs = CandidateBuilder(LINEAR).view(before).problem.jobs
    assert jobs.iterations_left.tolist() == [100.0, 74.5]
    assert jobs.request_iteration_s.tolist() == [4.0, 4.0]
    assert jobs.guaranteed.tolist() == [True, False]
    assert jobs.restart_s.tolist() == [30.0, 30.0]
    assert jobs.restart_left_s.tolist() == [12.0, 0.0]
    np.testing.assert_array_equal(jobs.stay_iteration_s, [2.0, np.nan])
    assert jobs.attained_gpu_s.tolist() == [77.0, 0.0]
    assert jobs.submission_s.tolist() == [0.0, 5.0]
    assert jobs.weight.tolist() == [1.0, 2.0]
    assert jobs.running.tolist() == [True, False]


def test_holds_and_side_demands() -> None:
    belief = speeds({"m": {"2": 4.0, "2+1": 3.0}}, SideDemand(cpus=3, host_memory_gib=10.0))
    before = state(
        cluster(4, 4),
        running("a", {0: [0, 1], 1: [3]}, cpus_per_gpu=5),
        queued("b", cpus_per_gpu=1),
    )
    problem = CandidateBuilder(belief).view(before).problem
    assert problem.holds.job.tolist() == [0, 0]
    assert problem.holds.node.tolist() == [0, 1]
    assert problem.holds.demand.tolist() == [[2, 10, 20, 0], [1, 5, 10, 0]]
    of_b = problem.candidates.side[problem.candidates.job == 1]
    assert of_b.tolist() == [[3, 10, 0]] * len(of_b)  # the plan needs more CPU threads than asked


@pytest.mark.parametrize(
    ("side", "limits"),
    [
        (SideDemand(cpus=5), {"cpus": 16}),
        (SideDemand(host_memory_gib=5.0), {"host_memory_gib": 16.0}),
        (SideDemand(rdma_gb_per_s=5.0), {"rdma_gb_per_s": 16.0}),
    ],
)
def test_shapes_beyond_an_empty_node_are_not_candidates(
    side: SideDemand, limits: dict[str, float]
) -> None:
    belief = speeds({"m": {"1": 8.0, "2": 4.0, "4": 2.0}}, side)
    assert shapes(CandidateBuilder(belief), state(cluster(4, **limits), queued("a"))) == [
        ["1 dp", "2 dp"]
    ]


def test_jobs_of_one_model_with_other_cpu_demands_have_other_candidates() -> None:
    before = state(cluster(8, cpus=16), queued("a", cpus_per_gpu=1), queued("b", cpus_per_gpu=4))
    assert [len(found) for found in shapes(CandidateBuilder(LINEAR), before)] == [4, 3]


def test_closed_nodes_are_not_open() -> None:
    before = state(cluster(8, 8), queued("a"), closed=[1])
    assert CandidateBuilder(LINEAR).view(before).problem.nodes.open.tolist() == [True, False]


def test_the_request_is_the_fastest_placement_of_what_was_asked_for() -> None:
    belief = speeds({"m": {"3+1": 1.0, "2+2": 3.0, "4": 2.0, "4 dp+gc": 0.5, "1": 9.0}})
    builder, where = CandidateBuilder(belief), cluster(4, 4)
    assert builder.request_iteration_s(job("a", 4), where) == 1.0
    # 8 threads per GPU: 24 of 16 in a part of three, 16 in one of two.
    needy = job("a", 4, cpus_per_gpu=8)
    assert builder.request_iteration_s(needy, cluster(4, 4, cpus=16)) == 3.0
    assert builder.request_iteration_s(job("b", 1), where) == 9.0


def test_a_request_that_cannot_run_counts_as_the_slowest_that_can() -> None:
    builder = CandidateBuilder(LINEAR)
    assert builder.request_iteration_s(job("a", 3), cluster(8)) == 8.0


def test_another_cluster_clears_the_caches() -> None:
    builder = CandidateBuilder(LINEAR)
    small, large = state(cluster(2), queued("a", 4)), state(cluster(8), queued("a", 4))
    assert shapes(builder, small) == [["1 dp", "2 dp"]]
    assert builder.request_iteration_s(small.jobs[0].job, small.cluster) == 8.0
    assert shapes(builder, large) == [["1 dp", "2 dp", "4 dp", "8 dp"]]
    assert builder.request_iteration_s(large.jobs[0].job, large.cluster) == 2.0
    assert shapes(builder, small) == [["1 dp", "2 dp"]]


def test_a_round_without_jobs_is_a_problem_without_candidates() -> None:
    problem = CandidateBuilder(LINEAR).view(state(cluster(8))).problem
    assert (problem.jobs.count, problem.candidates.count, problem.holds.count) == (0, 0, 0)
    assert problem.candidates.part_start.tolist() == [0]


def test_a_model_without_configuration_here_has_no_candidates() -> None:
    belief = speeds({"m": {"1": 8.0}, "w": {"8+8": 1.0}})
    before = state(cluster(8), queued("a", model="w"), queued("b"))
    assert shapes(CandidateBuilder(belief), before) == [[], ["1 dp"]]


def test_speed_of_what_runs_is_that_of_its_span() -> None:
    belief = speeds({"m": {"2+2": 3.0}})
    before = state(cluster(4, 4), running("a", {0: [0, 1], 1: [0, 1]}))
    builder = CandidateBuilder(belief)
    held: JobState = before.jobs[0]
    assert held.running is not None
    assert held.running.plan == DP
    assert builder.speed(held.job, held.running, before.cluster) == 3.0


def racks() -> Cluster:
    """Two NVLink domains of two nodes, one under each leaf, and a node without one."""
    kind = replace(A800_NODE, name="x4", gpus=4)
    places = (("l0", "r0"), ("l0", "r0"), ("l1", "r1"), ("l1", "r1"), ("l1", None))
    nodes = tuple(Node(f"n{i}", kind, leaf, rack) for i, (leaf, rack) in enumerate(places))
    return Cluster("racks", nodes)


def test_shapes_of_several_parts_come_once_per_scope() -> None:
    belief = speeds({"m": {"4": 2.0, "4+4": 1.0, "4+4+4": 0.8}})
    view = CandidateBuilder(belief, prune=False).view(state(racks(), queued("a")))
    table = view.problem.candidates
    found = [(table.parts(k), Scope(int(table.scope[k]))) for k in range(table.count)]
    assert sorted(found) == sorted(
        [((4,), Scope.NODE)]
        + [
            (shape, scope)
            for shape in ((4, 4), (4, 4, 4))
            for scope in (Scope.NVLINK, Scope.LEAF, Scope.POD)
        ]
    )
    assert view.problem.nodes.leaf.tolist() == [0, 0, 1, 1, 1]
    domain = view.problem.nodes.domain.tolist()
    assert domain[0] == domain[1] != domain[2] == domain[3] != domain[4]
    assert scopes_of(cluster(4, 4), cluster(4, 4).node_types[0]) == (Scope.LEAF,)


def test_a_job_across_leaves_holds_their_uplinks() -> None:
    belief = speeds({"m": {"2+2": 3.0}}, SideDemand(rdma_gb_per_s=5.0))
    across = running("across", {1: [0, 1], 2: [0, 1]})
    within = running("within", {3: [0, 1], 4: [0, 1]})
    holds = CandidateBuilder(belief).view(state(racks(), across, within)).problem.holds
    assert holds.uplink_gb_per_s.tolist() == [10.0, 10.0, 0.0, 0.0]
    assert holds.demand[:, 3].tolist() == [10.0] * 4


def test_a_view_does_not_depend_on_what_the_builder_saw_before() -> None:
    belief, first = random_world(np.random.default_rng(2))
    _, second = random_world(np.random.default_rng(6))
    seasoned = CandidateBuilder(belief)
    seasoned.view(second)
    a, b = seasoned.view(first).problem, CandidateBuilder(belief).view(first).problem
    assert a.candidates.iteration_s.tobytes() == b.candidates.iteration_s.tobytes()
    assert a.jobs.request_iteration_s.tobytes() == b.jobs.request_iteration_s.tobytes()


def columns(problem: RoundProblem) -> list[bytes]:
    """All arrays of all tables of a problem."""
    options = problem.options
    tables = (
        problem.jobs, problem.candidates, problem.nodes, problem.holds, problem.shared,
        options, options.starts, options.members, options.held, options.mixed,
    )  # fmt: skip
    named = ((table, column.name) for table in tables for column in fields(table))
    found = [getattr(table, name) for table, name in named if not name.startswith("_")]
    return [column.tobytes() for column in found if isinstance(column, np.ndarray)]


@pytest.mark.parametrize("requests_only", [False, True])
def test_cached_candidates_equal_those_of_a_fresh_builder(requests_only: bool) -> None:
    """Jobs come, go, start, move and stop, under one name also another job."""
    belief = speeds({"m": {"1": 8.0, "2": 5.0, "4": 2.0, "2+2": 2.5}, "n": {"1": 3.0, "2": 1.0}})
    seasoned = CandidateBuilder(belief, requests_only=requests_only)
    draw, where = np.random.default_rng(4), cluster(4, 4)
    standing: dict[str, JobState] = {}
    kept, last = 0, None
    for turn in range(120):
        for name in map(str, draw.integers(0, 6, 2 * (turn % 2))):
            at = int(name)
            standing.pop(name, None)
            if draw.random() < 0.8:
                model, where_to = str(draw.choice(["m", "n"])), {at // 3: [at % 3]}
                stays = draw.random() < 0.6
                standing[name] = (
                    running(name, where_to, model=model) if stays else queued(name, model=model)
                )
        for name, known in standing.items():
            further = replace(
                known, iterations_done=known.iterations_done + 1.0, restart_s=7.0 * turn
            )
            waits = known.running is None
            standing[name] = further if waits else replace(further, restart_left_s=50.0 - turn / 3)
        before = state(where, *standing.values(), closed=[1] if draw.random() < 0.1 else [])
        fresh = CandidateBuilder(belief, requests_only=requests_only)
        found, view = seasoned.view(before), fresh.view(before)
        assert columns(found.problem) == columns(view.problem)
        assert found.states == view.states
        assert [own.rows for own in found.slices] == [own.rows for own in view.slices]
        kept += found.problem.candidates is last
        last = found.problem.candidates
    assert kept > 30


def test_a_rigid_job_is_offered_its_request_the_fastest_shape_first() -> None:
    """2+2 before 4 where it is faster; another plan where the request's is not there; else all."""
    belief = speeds(
        {"m": {"4": 3.0, "2+2": 2.0, "1": 9.0, "1 dp+gc": 8.0}, "n": {"2": 1.0, "1": 4.0}}
    )
    before = state(
        cluster(4, 4),
        queued("a", gpus=4),
        queued("b", gpus=1, requested_plan=ExecutionPlan.parse("dp+gc")),
        queued("c", gpus=2),
        queued("d", model="n", gpus=4),
    )
    builder = CandidateBuilder(belief, prune=False, requests_only=True)
    assert shapes(builder, before) == [
        ["2+2 dp", "4 dp"],
        ["1 dp+gc"],
        ["2+2 dp", "4 dp", "1 dp+gc", "1 dp"],
        ["2 dp", "1 dp"],
    ]
