"""The table of policies that are told limits: its rows, its page, and that losses are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.backfill import policies
from benchmarks.backfill.policies import CONTENDERS, Row, main, read, rows_of, write, write_page
from morph_opt.replay.prepare import prepare
from morph_opt.replay.run import run_prepared
from morph_opt.replay.scenario import Scenario


def row(contender: str, seed: int, jct_s: float, size: str = "all") -> Row:
    return Row("acme-bursts", seed, contender, size, 10, jct_s, 5.0, 20.0, 40.0, 0.0)


def page(tmp_path: Path, *rows: Row) -> str:
    write_page(rows, tmp_path)
    return (tmp_path / "README.md").read_text()


def test_a_loss_is_an_interval_above_the_reference(tmp_path: Path) -> None:
    reference = [row("slurm", seed, 100.0) for seed in range(3)]
    worse = [row("MILP", seed, jct_s) for seed, jct_s in enumerate((110.0, 112.0, 114.0))]
    better = [row("easy", seed, jct_s) for seed, jct_s in enumerate((80.0, 90.0, 130.0))]
    found = page(tmp_path, *reference, *worse, *better)
    assert "| MILP | **1.12 (1.07 to 1.17)** |" in found.replace("  ", " ")
    assert "- MILP on `acme-bursts`, all: 1.12" in found
    assert "easy on" not in found  # the interval has 1 in it
    assert "None: no interval is above 1" in page(tmp_path, *reference, *better)
    starving = [replace(one, max_queued_s=80.0) for one in better]
    found = page(tmp_path, *reference, *starving)
    assert "- easy on `acme-bursts`, longest wait: 80 s, 2.0 times that of `slurm`" in found


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    rows = [row("MILP, non-preemptive", 0, 1234.5), row("slurm", 1, 2.0, "1 GPU")]
    write(rows, tmp_path / "rows.csv")
    assert read(tmp_path / "rows.csv") == rows
    assert read(tmp_path / "none.csv") == []


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda one: one.label)
def test_contenders_are_told_limits_alone(contender: policies.Contender, tmp_path: Path) -> None:
    """A small trace runs under each, and only those that may stop jobs do."""
    found = policies.scheduler_of(contender, tmp_path, "limits:modal")
    assert found.durations.startswith("limits:modal")
    scenario = Scenario("tests.engine.toys:trace/6", "2x4:A800-80GB", scheduler=found)
    jobs = run_prepared(prepare(scenario)).jobs
    rows = list(rows_of("toy", 0, contender.label, jobs))
    assert rows[0].size == "all"
    assert rows[0].jobs == len(jobs) == sum(one.jobs for one in rows[1:])
    assert not contender.keeps or rows[0].restarts_per_job == 0.0


def test_mistakes_end_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["--twins", "nope"], "--twins: unknown: 'nope'"),
        (["--only", "nope"], "--only: unknown: 'nope'; known are slurm; easy"),
        ([str(tmp_path)], "has no sacct.txt"),
    ):
        assert main([*words, "--out", str(tmp_path)]) == 2
        assert said in capsys.readouterr().err
