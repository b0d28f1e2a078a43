"""What the campaign of mutants copies; a broken copy or a busy machine is no killed mutant."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.checks.robustness.mutants import (
    ROOT,
    Copy,
    Mutant,
    earlier,
    found_again,
    judge_again,
    left_out,
    write_report,
)
from benchmarks.checks.robustness.report import mutants

MUTANTS = "benchmarks.checks.robustness.mutants"


def test_a_copy_lacks_run_folders_and_no_package() -> None:
    assert left_out(str(ROOT), ["runs", ".venv", "morph_opt"]) == {"runs", ".venv"}
    assert left_out(str(ROOT / "morph_opt"), ["runs", "__pycache__", "plan"]) == {"__pycache__"}


def test_tests_that_fail_without_a_mutant_judge_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MUTANTS}.shutil.copytree", lambda *a, **k: None)
    copy = Copy(tmp_path)
    outcomes = {("good",): "survived", ("broken",): "killed"}
    monkeypatch.setattr(copy, "passes", lambda tests: outcomes[tests])
    copy.require_sound(("good",))
    with pytest.raises(SystemExit, match="without a mutant these tests fail in a copy: broken"):
        copy.require_sound(("broken",))


def test_timeouts_of_mutants_are_told_from_unjudged_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MUTANTS}.shutil.copytree", lambda *a, **k: None)
    copy = Copy(tmp_path)
    copy.root.mkdir()
    (copy.root / "test_it.py").write_text(
        "import time\ndef test_waits():\n    time.sleep(600)\n"
        "def test_works():\n    while True:\n        pass\n"
    )
    assert copy.passes(["test_it.py::test_waits"], limit_s=0.1) == "unjudged"
    assert copy.passes(["test_it.py::test_works"], cpu_s=1.0) == "timeout"
    assert copy.passes(["test_it.py::test_nothing"]) == "killed"


def test_the_score_is_of_what_was_judged_seed_by_seed(tmp_path: Path) -> None:
    outcomes = ("killed", "timeout", "survived", "unjudged", "gone")
    found = [
        Mutant("f.py", n, "op", "a", "b", each, 7, "survived" if each == "gone" else "")
        for n, each in enumerate(outcomes)
    ]
    write_report(tmp_path, [*found, Mutant("f.py", 9, "op", "a", "b", "killed", 8)])
    lines = list(mutants(tmp_path))
    assert "| 7 | 5 | 2 | 0 | 3 | 2 | 50.0 % | 66.7 % |" in lines
    assert "| 8 | 1 | 0 | 0 | 1 | 1 | 100.0 % | 100.0 % |" in lines
    assert earlier(tmp_path, 8) == found
    with (tmp_path / "mutants.csv").open() as file:
        assert [row["seed"] for row in csv.DictReader(file)] == ["7"] * 5 + ["8"]


def test_surviving_mutants_are_found_by_line_and_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "def f(x):\n    return (\n        x\n    )\n"
    lines = "return (         x     )", "return (         -x     )"
    mutant = Mutant("f.py", 9, "op", *lines, "survived")
    assert found_again(mutant, source) == "def f(x):\n    return (         -x     )\n"
    assert found_again(mutant, "pass\n") is None
    monkeypatch.setattr(f"{MUTANTS}.shutil.copytree", lambda *a, **k: None)
    monkeypatch.setattr(f"{MUTANTS}.ROOT", tmp_path)
    monkeypatch.setattr(Copy, "judge", lambda *a: "killed")
    (tmp_path / "f.py").write_text(source)
    write_report(tmp_path, [mutant, replace(mutant, before="x + 1"), replace(mutant, file="g.py")])
    judge_again(tmp_path)
    rows = earlier(tmp_path, -1)
    assert sorted(row.outcome for row in rows) == ["gone", "gone", "killed"]
    assert {row.first for row in rows} == {"survived"}
