"""The figures of the comparison, worked out by hand on a few rows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.solvers import measures, replays
from benchmarks.solvers.agreeing import brute_force, small
from benchmarks.solvers.protocol import RawFile, Row, read_rows

GOOD = Row(
    solver="a",
    version="A 1",
    instance="i",
    gpus=64,
    columns=10,
    seed=0,
    status="optimal",
    stop="proved",
    objective=10.0,
    bound=10.0,
    gap=0.0,
    nodes=1,
    build_s=0.1,
    solve_s=0.9,
    check_s=0.0,
    cpu_s=1.0,
    limit_s=8.0,
    best=10.0,
    best_bound=10.0,
    message="",
)


def test_outcomes() -> None:
    assert GOOD.outcome == "solved"
    assert replace(GOOD, status="feasible", objective=9.0).outcome == "feasible"
    assert replace(GOOD, status="no_solution", objective=math.nan, bound=math.inf).outcome == "none"
    assert replace(GOOD, status="error", objective=math.nan, bound=math.inf).outcome == "failed"


@pytest.mark.parametrize(
    "lie",
    [
        {"status": "infeasible", "objective": math.nan, "bound": math.inf},
        {"status": "unbounded", "objective": math.nan, "bound": math.inf},
        {"objective": 10.1, "bound": 10.1},
        {"objective": 9.9, "bound": 9.9},
        {"status": "feasible", "objective": 9.0, "bound": 9.5},
        {"objective": 9.98, "bound": 10.0},
    ],
)
def test_false_statuses_of_solvers_are_found(lie: dict[str, object]) -> None:
    row = replace(GOOD, **lie)  # type: ignore[arg-type]
    assert row.false_claim
    assert row.outcome == "wrong"
    assert not row.solved
    assert measures.disagreements([row, GOOD]) == measures.disagreements([row])


def test_an_answer_within_the_gap_is_no_lie() -> None:
    assert replace(GOOD, objective=9.991, bound=10.0).solved
    assert not replace(GOOD, status="feasible", objective=5.0, bound=12.0).false_claim


def test_unsolved_instances_are_charged_the_time_limit() -> None:
    assert GOOD.charged_s == 1.0
    assert replace(GOOD, status="feasible", cpu_s=0.5).charged_s == 8.0
    assert replace(GOOD, status="error", objective=math.nan, bound=math.inf).charged_s == 8.0


def test_shifted_geometric_mean() -> None:
    assert measures.shifted_geometric_mean([1.0, 4.0], 0.0) == pytest.approx(2.0)
    assert measures.shifted_geometric_mean([0.0, 0.3], 0.1) == pytest.approx(0.1)
    assert math.isnan(measures.shifted_geometric_mean([]))


def test_profile_and_virtual_best() -> None:
    rows = [
        GOOD,
        replace(GOOD, instance="j", cpu_s=4.0),
        replace(GOOD, solver="b", cpu_s=2.0),
        replace(GOOD, solver="b", instance="j", status="feasible", objective=9.0),
    ]
    assert measures.virtual_best(rows) == {("i", 0): 1.0, ("j", 0): 4.0}
    profile = measures.profile(rows)
    assert profile["a"].tolist() == [1.0, 1.0]
    assert profile["b"].tolist() == [2.0, math.inf]
    assert measures.share_within(profile["b"], 1.9) == 0.0
    assert measures.share_within(profile["b"], 2.0) == 0.5


def test_only_cases_that_all_solvers_ran_are_compared() -> None:
    rows = [GOOD, replace(GOOD, instance="j"), replace(GOOD, solver="b")]
    assert {row.instance for row in measures.complete_cases(rows)} == {"i"}


def test_gap_left() -> None:
    left = replace(GOOD, status="feasible", objective=9.0, gap=0.1)
    assert measures.median_gap_of_unsolved([GOOD, left]) == 0.1
    assert math.isnan(measures.median_gap_of_unsolved([GOOD]))


def test_raw_rows_are_read_back_and_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    RawFile(path).append(replace(GOOD, message='said "no, thanks"', gap=math.inf))
    again = RawFile(path)
    assert again.done == {GOOD.key}
    again.append(replace(GOOD, seed=1))
    assert read_rows(path)[0].message == 'said "no, thanks"'
    assert [row.seed for row in read_rows(path)] == [0, 1]


def test_changed_instances_are_solved_again(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    RawFile(path).append(GOOD)
    RawFile(path).append(replace(GOOD, instance="older", columns=GOOD.columns + 1))
    again = RawFile(path, lambda row: row.columns == GOOD.columns)
    assert again.done == {GOOD.key}
    assert read_rows(path) == [GOOD]


def test_random_models_are_of_both_kinds() -> None:
    rng = np.random.default_rng(2026)
    known = [brute_force(small(rng)) for _ in range(100)]
    assert 50 < sum(best is not None for best in known) < 100


def test_rounds_and_replays_of_several_solvers_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deciders on a few rounds of a short trace, and the section that is made of them."""
    monkeypatch.setattr(replays, "TRACE", "naive")
    pair = [replays.Decider("highs", "auto"), replays.Decider("highs-default", "exact")]
    monkeypatch.setattr(replays, "deciders", lambda *_: iter(pair))
    assert "Not measured" in replays.page(tmp_path)
    replays.rounds(tmp_path / "rounds.csv", every=40)
    replays.replays(tmp_path / "replays.csv")
    page = replays.page(tmp_path)
    assert "in 0 rounds a decision is worth more than the bound of another" in page
    assert "| highs-default | exact | 3 | 3 | 3 |" in page
    assert "exact by highs-default" in page
    assert "10 of 10" in page


def test_the_section_says_by_how_much_rounds_and_replays_differ(tmp_path: Path) -> None:
    rounds = ["highs,auto,1,10.0,10.0,optimal,knapsack,0.01"]
    rounds += ["cbc,exact,1,9.0,9.5,feasible,exact,0.03", "cbc,exact,2,4.0,4.0,optimal,exact,0.05"]
    lines = [",".join(replays.ROUND_FIELDS), *rounds]
    (tmp_path / "rounds.csv").write_text("\n".join(lines) + "\n")
    ends = ["highs,exact,0,7,exact by highs 7,0,0,3,3,1000.0,5.0"]
    ends += ["highs,exact,1,7,exact by highs 7,0,0,3,3,1100.0,5.0"]
    ends += ["cbc,exact,0,8,exact by cbc 8,0,0,3,3,1500.0,9.0"]
    (tmp_path / "replays.csv").write_text(
        "\n".join([",".join(replays.REPLAY_FIELDS), *ends]) + "\n"
    )
    page = replays.page(tmp_path)
    assert "more than 1.0e-01 below the best" in page
    assert "in 1 rounds a decision is worth more than the bound of another" in page
    assert "| cbc | exact | 2 | 1 | 1 | 1.0e-01 | 40 | 30 | 0.1 |" in page
    assert "Between solvers it differs by up to 50 % (1,000 to 1,500 s)." in page
    assert "Between seeds of `highs` alone it differs by up to 10 % (1,000 to 1,100 s)." in page
    assert "Not replayed whole, for their time: " in page
