"""What holds for every round: determinism, scaling, monotonicity, symmetry, packing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import node_assignment, node_pattern
from formulations.linear_model import LinearModel
from formulations.round.check import check
from formulations.round.decode import pack, room_after_stays
from formulations.round.tables import Level, NodeTable, RoundProblem
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    RoundSize,
    random_level,
    random_round,
    with_one_more_node,
)
from tests.formulations.worlds.rounds import Candidate, Hold, plain_level, tiny
from tests.formulations.worlds.solving import FORMULATIONS, optimum, solve_model

SEEDS = st.integers(0, 2**32 - 1)
BUILDS = {"node_pattern": node_pattern.build, "node_assignment": node_assignment.build}
SOME = settings(max_examples=40)


def drawn(seed: int, size: RoundSize | None = None) -> tuple[RoundProblem, Level]:
    draw = np.random.default_rng(seed)
    problem = random_round(draw, size or RoundSize())
    return problem, random_level(draw, problem)


def digest(model: LinearModel) -> str:
    """Hash of everything that a solver or a reader would see."""
    found = hashlib.sha256()
    for array in (
        model.cost,
        model.column_lower,
        model.column_upper,
        model.integer,
        model.row_lower,
        model.row_upper,
        model.start,
        model.index,
        model.value,
    ):
        found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    for name in (*model.row_names(), *model.column_names()):
        found.update(name.encode())
    return found.hexdigest()


def digests() -> str:
    """Hashes of ten rounds in both formulations."""
    size = RoundSize(jobs=8, nodes=6, classes=3)
    rounds = [drawn(seed, size) for seed in range(10)]
    return " ".join(digest(b(*one).model) for one in rounds for b in BUILDS.values())


@given(SEEDS)
def test_build_gives_the_same_bytes_and_leaves_its_input_alone(seed: int) -> None:
    problem, level = drawn(seed)
    arrays = [
        getattr(table, f)
        for table in (problem.jobs, problem.candidates, problem.nodes, problem.holds)
        for f in table.__slots__
        if getattr(table, f) is not None
    ]
    before = [array.tobytes() for array in (*arrays, level.value)]
    for build in BUILDS.values():
        assert digest(build(problem, level).model) == digest(build(problem, level).model)
    assert [array.tobytes() for array in (*arrays, level.value)] == before


def test_build_gives_the_same_bytes_in_another_process() -> None:
    root = Path(__file__).resolve().parents[2]
    code = "from tests.formulations.test_properties import digests; print(digests())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "4711"},
    )
    assert done.stdout.strip() == digests()


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_names_are_unique(formulation: str) -> None:
    for seed in range(20):
        model = BUILDS[formulation](*drawn(seed)).model
        for names in (list(model.row_names()), list(model.column_names())):
            assert len(names) == len(set(names))


@SOME
@given(SEEDS, st.floats(1e-4, 1e4))
def test_scaling_all_values_scales_the_optimum(seed: int, factor: float) -> None:
    problem, level = drawn(seed)
    scaled = replace(level, value=level.value * factor)
    assert optimum(problem, scaled) == pytest.approx(factor * optimum(problem, level), rel=1e-6)


@SOME
@given(SEEDS)
def test_one_more_node_never_hurts(seed: int) -> None:
    problem, level = drawn(seed)
    before = optimum(problem, level)
    for node_class in range(problem.nodes.classes):
        after = optimum(with_one_more_node(problem, node_class), level)
        assert after >= before * (1 - 1e-6)


@SOME
@given(SEEDS)
def test_opening_a_node_never_hurts(seed: int) -> None:
    problem, level = drawn(seed, RoundSize(closed=0.5))
    nodes = replace(problem.nodes, open=np.ones_like(problem.nodes.open))
    assert optimum(replace(problem, nodes=nodes), level) >= optimum(problem, level) * (1 - 1e-6)


@SOME
@given(SEEDS, SEEDS)
def test_the_order_of_the_nodes_does_not_matter(seed: int, order: int) -> None:
    problem, level = drawn(seed)
    shuffle = np.random.default_rng(order).permutation(problem.nodes.count)
    place_of = np.argsort(shuffle)
    moved = replace(
        problem,
        nodes=NodeTable(
            problem.nodes.node_class[shuffle], problem.nodes.capacity, problem.nodes.open[shuffle]
        ),
        holds=replace(problem.holds, node=place_of[problem.holds.node]),
    )
    assert optimum(moved, level) == pytest.approx(optimum(problem, level), rel=1e-6)


@SOME
@given(SEEDS)
def test_the_relaxation_bounds_the_optimum(seed: int) -> None:
    problem, level = drawn(seed)
    best = optimum(problem, level)
    for build in BUILDS.values():
        bound = solve_model(build(problem, level).model.relaxed()).objective
        assert bound >= best - 1e-6 * max(1.0, best)


@settings(max_examples=400)
@given(SEEDS, st.sampled_from(["size", "parts"]))
def test_packed_placements_are_feasible(seed: int, order: str) -> None:
    draw = np.random.default_rng(seed)
    problem = random_round(draw, replace(EVERYTHING, rules=0))
    choice = np.asarray(
        [draw.choice(oracle.options(problem, job)) for job in range(problem.jobs.count)]
    )
    before = choice.copy()
    found = pack(problem, choice, order)
    assert (choice == before).all()
    if found is not None:
        check(problem, found)
        assert (found.choice == choice).all()


@given(SEEDS)
def test_room_after_stays_is_capacity_less_what_stays(seed: int) -> None:
    problem, _ = drawn(seed)
    choice = problem.options.stay
    room = room_after_stays(problem, choice).nodes
    expected = oracle.room_after_stays(problem, choice.tolist())
    assert expected is not None
    np.testing.assert_allclose(room[problem.nodes.open], expected.nodes[problem.nodes.open])
    assert (room[~problem.nodes.open] == 0).all()


def test_staying_on_a_closed_node_is_possible_and_starting_there_is_not() -> None:
    problem = tiny([8], [Candidate(0, (2,))], holds=[Hold(1, 0, 4)], closed=[0])
    level = plain_level(problem)
    for formulation in FORMULATIONS:
        assert optimum(problem, level, formulation) == pytest.approx(4.4)


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize(
    "problem",
    [
        tiny([8], [], jobs=2),
        tiny([8], [], holds=[Hold(0, 0, 8)]),
        tiny([8, 4], [Candidate(0, (8,))], closed=[0, 1]),
        tiny([1], [Candidate(0, (1, 1, 1))]),
    ],
    ids=["no candidate", "only a stay", "all closed", "more parts than nodes"],
)
def test_degenerate_rounds(formulation: str, problem: RoundProblem) -> None:
    level = plain_level(problem)
    assert optimum(problem, level, formulation) == oracle.best(problem, [level]).value(level)
