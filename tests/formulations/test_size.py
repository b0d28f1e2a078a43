"""Rows and columns are as many as the formulation pages say."""

from __future__ import annotations

import numpy as np
import pytest

from formulations import node_assignment, node_pattern
from formulations.linear_model import LinearModel
from formulations.round.tables import RESOURCES, RoundProblem
from tests.formulations.test_patterns import multisets
from tests.formulations.worlds.random_rounds import RoundSize, random_round
from tests.formulations.worlds.rounds import Candidate, plain_level, tiny

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
    assert count(model, "capacity") == len(RESOURCES) * nodes.count
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


@pytest.mark.parametrize(("cpus", "slots"), [(48.0, 1), (47.0, 2)])
def test_a_resource_makes_kinds_only_where_it_can_run_out(cpus: float, slots: int) -> None:
    """Eight GPUs with six threads each are 48; with 47 the two jobs' slots differ."""
    rows = [Candidate(job, (1,), side=(need, 0.0, 0.0)) for job, need in ((0, 6.0), (1, 2.0))]
    problem = tiny([8], rows, side=(cpus, 0.0, 0.0))
    model = node_pattern.build(problem, plain_level(problem)).model
    assert count(model, "slots") == slots
    assert count(model, "side") == 0
