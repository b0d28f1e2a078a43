"""A small part of the fault campaign; and that its judges can fail."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.checks.robustness import faults
from benchmarks.checks.robustness.faults import tallied
from benchmarks.checks.robustness.liars import ANSWERS, BEST, LIMITS, MODELS, false_words, lied_to
from morph_opt.scheduling.solvers.outcome import Status
from morph_opt.scheduling.solvers.registry import installed, make_solver
from tests.waiting import PATIENCE_S


def test_kills_full_disks_clocks_and_second_writers(project_root: Path, tmp_path: Path) -> None:
    words = "--only naive, srtf|--kills 1|--writes 8|--others 1|--without-solvers"
    command = [word for option in words.split("|") for word in option.split(" ", 1)]
    done = subprocess.run(
        [sys.executable, "-m", faults.__name__, *command, "--out", str(tmp_path)],
        cwd=project_root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (tmp_path / "faults.csv").read_text("utf-8").splitlines()
    assert len(rows) == 6


@pytest.mark.parametrize("lie", ANSWERS)
@pytest.mark.parametrize("solver", installed())
def test_adapters_never_report_a_false_status(solver: str, lie: str) -> None:
    assert lied_to(solver, lie) == ["", ""]


def test_the_judges_can_fail() -> None:
    model, best = MODELS[0], BEST[0]
    good = make_solver("highs").solve(model, LIMITS)
    assert good.x is not None
    assert false_words(good, model, best) == ""
    assert "breaks" in false_words(replace(good, x=good.x + 9), model, best)
    assert "another" in false_words(replace(good, objective=8.0), model, best)
    assert "bound" in false_words(replace(good, bound=6.0), model, best)
    worse = replace(good, x=np.zeros(2), objective=0.0)
    assert "optimal" in false_words(worse, model, best)
    assert "unbounded" in false_words(replace(good, status=Status.UNBOUNDED), model, best)
    assert tallied("a", "b", ["", "x", "y"]).differences == 2
