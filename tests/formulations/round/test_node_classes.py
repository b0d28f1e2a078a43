"""Gangs over several node classes: tables, what they cost, places, their file, the check."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.instances.round_json import from_json, to_json
from formulations.objectives.lookahead import levels as lookahead
from formulations.objectives.makespan import least_work
from formulations.prices import Relaxation, choose_prices
from formulations.prices.places import Places
from formulations.prices.placing import decided_by_prices
from formulations.prices.rounding import Rounding
from formulations.round.check import RuleError, check
from formulations.round.decode import pack
from formulations.round.shared import SharedTable
from formulations.round.tables import JobTable, Selection
from morph_opt.scheduling.decision.fallback import keep_and_fill
from tests.formulations.worlds import oracle
from tests.formulations.worlds.random_rounds import (
    EVERYTHING,
    RoundSize,
    random_level,
    random_round,
)
from tests.formulations.worlds.rounds import Candidate, Hold, candidate_table, tiny

LOOSE = Candidate(0, (1, 1, 1, 1, 1), classes=(0, 0, 0, 1, 1), loose=True, iteration_s=2.0)
WIDE = Candidate(1, (4, 2), classes=(0, 1))


def test_gpus_by_class_and_their_prices() -> None:
    # Nodes of 4 (class 0) and of 2 (class 1); job 2 runs on 1 + 2 of them.
    problem = tiny(
        [4, 2],
        [LOOSE, WIDE, Candidate(1, (2,), node_class=1)],
        holds=[Hold(2, 0, 1), Hold(2, 1, 2)],
    )
    options = problem.options
    assert problem.candidates.mixed.tolist() == [True, True, False]
    assert options.gpus.tolist() == [5.0, 6.0, 2.0, 3.0]
    assert options.gpus_on(0).tolist() == [3.0, 4.0, 0.0, 1.0]
    assert options.gpus_on(1).tolist() == [2.0, 2.0, 2.0, 2.0]
    # 3 x 10 + 2 x 1; 4 x 10 + 2 x 1; 2 x 1; 1 x 10 + 2 x 1 dollars.
    assert options.priced(np.asarray([10.0, 1.0])).tolist() == [32.0, 42.0, 2.0, 12.0]
    assert options.of_one_class.tolist() == [False, False, True, False]


def test_fewest_gpu_seconds_are_those_of_one_class_where_a_job_has_one() -> None:
    # 100 iterations, 30 s of start-up. Job 0 has 5 GPUs for 200 s alone: 1,150 GPU-seconds on
    # either class. Job 1 has 6 GPUs for 100 s over both, which do not count, and 2 of class 1.
    problem = tiny([4, 2], [LOOSE, WIDE, Candidate(1, (2,), node_class=1, iteration_s=3.0)])
    assert least_work(problem).tolist() == [[1150.0, 1150.0], [np.inf, 660.0]]


@pytest.mark.parametrize("seed", range(8))
def test_every_option_is_worth_something_to_lookahead(seed: int) -> None:
    problem = random_round(np.random.default_rng(seed), RoundSize(classes=3, mixed=0.8))
    (level,) = lookahead(problem)
    assert np.isfinite(level.value).all()
    assert (level.value > 0).all()


def test_loose_parts_fill_the_fullest_nodes_of_their_class() -> None:
    problem = tiny([4, 4, 2, 2], [LOOSE], holds=[Hold(1, 1, 2), Hold(2, 3, 1)])
    stays = problem.options.stay
    found = pack(problem, np.asarray([0, stays[1], stays[2]]))
    # Node 1 has 2 free and node 3 has 1: they first.
    assert found is not None
    assert found.nodes[0] == (1, 1, 0, 3, 2)
    check(problem, found)


@pytest.mark.parametrize(
    ("candidate", "nodes", "rule"),
    [
        (LOOSE, (0, 0, 0, 1, 0), "node_class"),
        (LOOSE, (0, 0, 0, 0, 0), "node_class"),
        (replace(LOOSE, loose=False), (0, 0, 0, 1, 1), "distinct_nodes"),
        (replace(LOOSE, classes=(0, 0, 1, 1, 1)), (0, 0, 1, 1, 1), "capacity"),
        (LOOSE, (0, 0, 0, 1), "parts"),
    ],
)
def test_the_check_names_what_a_gang_over_classes_breaks(
    candidate: Candidate, nodes: tuple[int, ...], rule: str
) -> None:
    problem = tiny([4, 2], [candidate])
    with pytest.raises(RuleError, match=f"^{rule}"):
        check(problem, Selection(np.asarray([0]), (nodes,)))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"part_class": np.asarray([0, 2])}, r"candidates\.part_class must lie in 0\.\.1"),
        (
            {"part_class": np.asarray([1, 1])},
            "of the first part must be the class of the candidate",
        ),
        (
            {"part_class": np.asarray([0, 1]), "part_gpus": np.asarray([2, 3])},
            "must not exceed the GPUs of a node of the class",
        ),
        ({"loose": np.asarray([True])}, "loose is only allowed for parts of one GPU"),
    ],
)
def test_contradicting_columns_are_refused(columns: dict[str, np.ndarray], message: str) -> None:
    problem = tiny([4, 2], [Candidate(0, (2, 2))])
    with pytest.raises(ValueError, match=message):
        replace(problem, candidates=replace(problem.candidates, **columns))


NUMBERS = [
    *(("jobs", name) for name in JobTable.__slots__ if name != "guaranteed"),
    *(("candidates", "side"), ("nodes", "capacity"), ("nodes", "uplink_gb_per_s")),
    *(("holds", "demand"), ("holds", "uplink_gb_per_s")),
]


@pytest.mark.parametrize("value", [-1.0, np.inf, np.nan])
@pytest.mark.parametrize(("table", "column"), NUMBERS)
def test_amounts_and_times_are_numbers(table: str, column: str, value: float) -> None:
    problem = tiny([4, 2], [Candidate(0, (2, 2))], holds=[Hold(0, 0, 1)])
    own = getattr(problem, table)
    values = getattr(own, column).copy()
    values.flat[0] = value
    changed = replace(own, **{column: values})
    if (table, column, value) == ("nodes", "uplink_gb_per_s", np.inf):
        replace(problem, nodes=changed)  # without a limit
        return
    # A job without a stay is queued, and must hold nothing.
    rule = rf"{table}\.{column} must be finite and at least 0|holds must cover exactly"
    with pytest.raises(ValueError, match=rule):
        replace(problem, **{table: changed})


@pytest.mark.parametrize("interval_s", [-1.0, np.inf, np.nan])
def test_the_interval_is_a_number(interval_s: float) -> None:
    with pytest.raises(ValueError, match="interval_s must be finite and at least 0"):
        replace(tiny([4], []), interval_s=interval_s)


def test_shared_gpus_must_be_of_one_class() -> None:
    problem = tiny([4, 2], [LOOSE, replace(LOOSE, job=1)])
    two = np.asarray([0, 0]), np.asarray([0, 1]), np.asarray([0, 1]), np.ones(2)
    with pytest.raises(ValueError, match="on nodes of one class"):
        replace(problem, shared=SharedTable(*two))


def test_file_form_has_gangs_over_classes_only_if_present() -> None:
    rows = [LOOSE, WIDE]
    text = to_json(tiny([4, 2], rows))
    again = from_json(text)
    assert to_json(again) == text
    assert again.candidates.part_class.tolist() == [0, 0, 0, 1, 1, 0, 1]
    assert again.candidates.loose.tolist() == [True, False]
    plain = json.loads(to_json(tiny([4, 2], [Candidate(0, (2,))])))
    assert {"part_class", "loose"}.isdisjoint(plain["candidates"])


def test_take_keeps_classes_with_their_parts() -> None:
    taken = candidate_table([LOOSE, WIDE]).take(np.asarray([1, 0]))
    assert [taken.classes_of(k).tolist() for k in (0, 1)] == [[0, 1], [0, 0, 0, 1, 1]]
    assert taken.loose.tolist() == [False, True]


def test_places_share_nodes_for_loose_parts_alone() -> None:
    places = Places(tiny([4, 2], [LOOSE, replace(LOOSE, loose=False)]))
    assert places.starts(1) is None
    nodes = places.starts(0)
    assert nodes == (0, 0, 0, 1, 1)
    assert places.free == [1, 0]
    assert places.gpus_of(0, 0) == [3, 2]
    places.ends(0, nodes)
    assert places.free == [4, 2]


SIZES = [
    RoundSize(classes=3, nodes=5, mixed=0.8),
    replace(EVERYTHING, classes=3, nodes=5, rules=0, mixed=0.8),
]


@pytest.mark.parametrize("size", SIZES, ids=["gpus", "everything"])
def test_decisions_of_prices_and_fallback_are_feasible(size: RoundSize) -> None:
    started = 0
    for seed in range(40):
        draw = np.random.default_rng((55, seed))
        problem = random_round(draw, size)
        level = random_level(draw, problem)
        relaxation = Relaxation(problem, level)
        best = oracle.best(problem, [level]).value(level)
        chosen = choose_prices(relaxation)
        by_prices = decided_by_prices(problem, Rounding(relaxation, chosen))
        for found in (by_prices, keep_and_fill(problem, level)):
            check(problem, found)
            assert found.value(level) <= best + 1e-9 * abs(best)
        picked = by_prices.choice[by_prices.choice >= 0]
        started += bool(np.isin(np.flatnonzero(problem.candidates.mixed), picked).any())
    assert started >= 5
