"""Rollouts: a simulated future by hand, and a replay whose decisions are tried."""

from __future__ import annotations

import pytest

from benchmarks.comparison import rollouts
from benchmarks.comparison.rollouts import Kind, Simulated, sum_s

WIDE = Kind(((4, 10.0),), 3.0, 20.0)
NARROW = Kind(((1, 9.0), (2, 5.0)), 2.0, 20.0)


def test_the_least_work_goes_first_at_boundaries() -> None:
    """Of 4 GPUs all are held to 30 s; then two jobs of 2 GPUs start at 60 s and end at 90 s."""
    runs = Simulated(WIDE, 3.0, 0.0, gpus=4, iteration_s=10.0)
    waits = [Simulated(NARROW, 2.0, 0.0) for _ in range(2)]
    assert sum_s([runs, *waits], [], 4, 60.0) == pytest.approx(30.0 + 90.0 + 90.0)


def test_an_arrival_of_less_work_stops_what_runs() -> None:
    """It arrives at 50 s and takes 4 of 5 GPUs from 60 s on, ends at 110 s, and the other
    begins anew at 120 s with the 12 iterations less 60 s / 5 s that it has done."""
    long = Simulated(NARROW, 100.0, 0.0, gpus=2, iteration_s=5.0)
    found = sum_s([long], [(50.0, WIDE)], 5, 60.0)
    assert found == pytest.approx((110.0 - 50.0) + (120.0 + 20.0 + 88 * 5.0))


def test_job_that_fits_nowhere_waits_while_others_hold_gpus() -> None:
    """It waits for the 60 s that the other job holds GPUs, and the sum ends there."""
    runs = Simulated(WIDE, 3.0, 0.0, gpus=4, iteration_s=10.0)
    never = Simulated(Kind(((8, 1.0),), 5.0, 0.0), 5.0, 0.0)
    assert sum_s([runs, never], [], 4, 60.0) == pytest.approx(30.0 + 60.0)


def test_a_replay_is_a_row_and_the_table_joins_the_rows_of_the_comparison(
    tmp_path, monkeypatch
) -> None:
    """Of `naive`, with the rows of the comparison as they are in the repository."""
    results = (rollouts.FOLDER / "results.csv").read_text()
    monkeypatch.setattr(rollouts, "FOLDER", tmp_path)
    monkeypatch.setattr(rollouts, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(rollouts, "FUTURES", 1)
    (tmp_path / "results.csv").write_text(results)
    (tmp_path / "page.md").write_text("<!-- generated:rollouts -->\n<!-- /generated:rollouts -->\n")
    assert rollouts.main(["--traces", "naive", "--seeds", "0"]) == 0
    row = (tmp_path / "rollouts.csv").read_text().splitlines()[1].split(",")
    assert row[:2] == ["naive", "0"]
    assert int(row[3]) > int(row[4]) >= int(row[5])
    monkeypatch.setattr(rollouts, "measured", None)  # a row that is there is not made again
    assert rollouts.main(["--traces", "naive", "--seeds", "0"]) == 0
    assert "| `naive` | 0 |" in (tmp_path / "page.md").read_text()
    assert rollouts.main(["--traces", "nope"]) == 2
