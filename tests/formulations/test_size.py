"""Rows and columns are as many as the formulation pages say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from formulations import node_assignment, node_pattern
from formulations.linear_model import LinearModel
from formulations.node_pattern.cells import find_cells
from formulations.round.tables import RoundProblem
from morph_opt.core.domain import (
    A800_NODE,
    Cluster,
    ExecutionPlan,
    Job,
    JobState,
    Leaf,
    Node,
    RoundState,
)
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.policies.objectives.plain import Jct
from tests.formulations.test_patterns import multisets
from tests.formulations.worlds.random_rounds import RoundSize, random_round
from tests.formulations.worlds.rounds import Candidate, plain_level, tiny
from tests.formulations.worlds.solving import optimum

SIZE = RoundSize(jobs=8, nodes=7, classes=3, candidates=6)


def count(model: LinearModel, family: str) -> int:
    blocks = (*model.row_blocks, *model.column_blocks)
    return sum(block.count for block in blocks if block.family == family)


def shapes(problem: RoundProblem) -> list[tuple[int, tuple[int, ...]]]:
    """Class and parts of every candidate."""
    table = problem.candidates
    return [(int(table.node_class[k]), table.parts(k)) for k in range(table.count)]


def open_nodes(problem: RoundProblem, node_class: int) -> list[int]:
    """Open nodes of a class."""
    nodes = problem.nodes
    return np.flatnonzero(nodes.open & (nodes.node_class == node_class)).tolist()


def free_states(problem: RoundProblem) -> dict[int, set[int]]:
    """Numbers of free GPUs of each open node that carries running jobs, by subset."""
    found: dict[int, set[int]] = {}
    for node in range(problem.nodes.count):
        held = problem.holds.demand[problem.holds.node == node, 0].tolist()
        if held and problem.nodes.open[node]:
            full = int(problem.nodes.capacity[problem.nodes.node_class[node], 0])
            sums = {0}
            for part in held:
                sums |= {total + int(part) for total in sums}
            found[node] = {full - total for total in sums}
    return found


def maximal(free: int, sizes: tuple[int, ...]) -> int:
    """Maximal patterns by listing all."""
    kinds = tuple((float(size),) for size in sizes)
    fitting = [m for m in multisets((float(free),), kinds) if any(m)]
    used = [sum(c * g for c, g in zip(m, sizes, strict=True)) for m in fitting]
    return sum(free - total < sizes[0] for total in used)


@pytest.mark.parametrize("seed", range(15))
def test_node_pattern(seed: int) -> None:
    problem = random_round(np.random.default_rng((41, seed)), SIZE)
    model = node_pattern.build(problem, plain_level(problem)).model
    states, nodes = free_states(problem), problem.nodes
    z = rows = 0
    slots = {(t, g) for t, parts in shapes(problem) for g in parts if open_nodes(problem, t)}
    for t in range(nodes.classes):
        sizes = tuple(sorted({g for kind, parts in shapes(problem) if kind == t for g in parts}))
        full = {int(nodes.capacity[t, 0])}
        frees = set().union(*(states.get(n, full) for n in open_nodes(problem, t)))
        patterns = [maximal(f, sizes) for f in frees if sizes and f >= sizes[0]]
        z, rows = z + sum(patterns), rows + len(patterns)
    assert count(model, "x") == problem.candidates.count
    assert count(model, "s") == int(problem.jobs.running.sum())
    assert count(model, "w") == sum(map(len, states.values()))
    assert count(model, "z") == z
    assert count(model, "one_config") == problem.jobs.count
    assert count(model, "one_free") == count(model, "node_free") == len(states)
    assert count(model, "pattern_count") == rows
    assert count(model, "slots") == len(slots)
    assert count(model, "distinct") == 0


@pytest.mark.parametrize("seed", range(15))
def test_node_assignment(seed: int) -> None:
    problem = random_round(np.random.default_rng((42, seed)), SIZE)
    model = node_assignment.build(problem, plain_level(problem)).model
    nodes = problem.nodes
    open_of = [int((nodes.open & (nodes.node_class == t)).sum()) for t in range(nodes.classes)]
    kinds = [len(set(parts)) for _, parts in shapes(problem)]
    spots = [open_of[t] for t, _ in shapes(problem)]
    assert model.columns == (
        problem.candidates.count
        + int(problem.jobs.running.sum())
        + sum(d * n for d, n in zip(kinds, spots, strict=True))
    )
    assert count(model, "parts") == sum(kinds)
    assert count(model, "distinct_nodes") == sum(spots)
    assert count(model, "capacity") == nodes.resources * nodes.count
    assert model.rows == problem.jobs.count + sum(kinds) + sum(spots) + 4 * nodes.count


def test_idle_nodes_cost_nothing() -> None:
    """Twice the idle nodes, the same rows and columns."""
    rows = [Candidate(0, (8,)), Candidate(0, (4, 4)), Candidate(1, (2,))]
    sizes = []
    for nodes in (2, 4):
        problem = tiny([8] * nodes, rows)
        model = node_pattern.build(problem, plain_level(problem)).model
        sizes.append((model.rows, model.columns))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(("cpus", "jobs", "slots"), [(48.0, 8, 1), (47.0, 8, 2), (47.0, 2, 1)])
def test_a_resource_makes_kinds_only_where_it_can_run_out(
    cpus: float, jobs: int, slots: int
) -> None:
    """Eight GPUs with six threads each are 48; with 47 slots differ, but two jobs want 6 + 2."""
    needs = [*[6.0] * (jobs - 1), 2.0]
    rows = [Candidate(job, (1,), side=(need, 0.0, 0.0)) for job, need in enumerate(needs)]
    problem = tiny([8], rows, side=(cpus, 0.0, 0.0))
    model = node_pattern.build(problem, plain_level(problem)).model
    assert count(model, "slots") == slots
    assert count(model, "side") == 0


def test_one_job_under_leaves_and_domains_is_a_small_model() -> None:
    """12 nodes, 8 of them in two domains, two leaves with uplinks: 553 rows and 1,288 columns."""
    kind = replace(A800_NODE, gpus=4, cpus=48, host_memory_gib=800.0, rdma_gb_per_s=50.0)
    places = [("l0", "d0")] * 4 + [("l0", None)] * 4 + [("l1", "d1")] * 4
    nodes = tuple(Node(f"n{i}", kind, *place) for i, place in enumerate(places))
    cluster = Cluster("two", nodes, (Leaf("l0", 100.0), Leaf("l1", 60.0)))
    plan = ExecutionPlan.parse("dp")
    job = Job("a", "roberta", 0.0, 1000, 4, plan)
    state = RoundState(0, 60.0, 60.0, cluster, (JobState(job, restart_s=60.0),))
    problem = CandidateBuilder(builtin_model()).view(state).problem
    level = Jct().levels(problem)[0]
    assert problem.candidates.count > 100
    assert find_cells(problem).count == 3
    built = node_pattern.build(problem, level)
    assert built.model.rows <= 80
    assert built.model.columns <= 300
    # Alone, it has what is best for it.
    best = float(level.value.max())
    assert optimum(problem, level, "node_pattern") == pytest.approx(best, rel=1e-9)


def test_every_whole_column_has_a_finite_limit_that_costs_nothing() -> None:
    """CP-SAT refuses a model with a column without one."""
    size = replace(SIZE, jobs=5, nodes=6, candidates=4, leaves=3, mixed=0.2)
    seen = 0
    for seed in range(60):
        draw = np.random.default_rng(seed)
        problem = random_round(draw, size)
        level = plain_level(problem)
        model = node_pattern.build(problem, level).model
        assert np.isfinite(model.column_upper[model.integer]).all()
        if not count(model, "f"):
            continue
        seen += 1
        assert optimum(problem, level) == pytest.approx(optimum(problem, level, "node_assignment"))
    assert seen > 10
