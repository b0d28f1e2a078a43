"""The benchmark of rounds runs, and its report is made from its table."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from benchmarks.rounds.cli import PARTS, main


def test_quick_mode_measures_every_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    with (tmp_path / "rounds.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(dict.fromkeys(row["part"] for row in rows)) == list(PARTS)
    page = (tmp_path / "README.md").read_text("utf-8")
    printed = capsys.readouterr().out
    for row in rows:
        assert row["metric"] in printed
        if row["part"] != "objectives":
            assert f"| {row['case']} | {row['metric']} |" in page
    row = r"^\| `cost` \| (\d+) \| tables \(knapsack\) \1 \| ([\d.e+-]+ \| ){5}[\d.]+ \|$"
    assert re.search(row, page, re.MULTILINE)
    figure = {(row["part"], row["metric"]): float(row["value"]) for row in rows}
    assert figure["dominance", "factor"] > 1.0
    assert figure["dominance", "largest relative change of an optimum"] < 1e-6
    assert 0.0 <= figure["root", "tight at the root"] <= 1.0
    assert figure["large", "gap"] <= 1e-3
    assert figure["ties", "moves, fewer_moves"] <= figure["ties", "moves, no ranks"]
    assert figure["ties", "largest relative change of the objective"] <= 2e-6
    stated = [row for row in rows if row["part"] == "size" and row["target"]]
    assert len(stated) >= 6
    assert all(float(row["value"]) == float(row["target"]) for row in stated)


@pytest.mark.parametrize("arguments", [["--only", "steps,sizes"], ["--repeat", "0"]])
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "--" in capsys.readouterr().err


def test_parts_that_are_not_measured_stay_in_the_report(tmp_path: Path) -> None:
    folder = ["--quick", "--out", str(tmp_path)]
    assert main([*folder, "--only", "audit"]) == 0
    assert main([*folder, "--only", "size"]) == 0
    with (tmp_path / "rounds.csv").open(encoding="utf-8", newline="") as file:
        parts = [row["part"] for row in csv.DictReader(file)]
    assert list(dict.fromkeys(parts)) == ["size", "audit"]
    assert parts.count("audit") == 3
