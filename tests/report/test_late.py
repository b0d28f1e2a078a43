"""A comparison says which runs had jobs that started late."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="the extra report is not installed")

from morph_opt.replay.run import replay
from morph_opt.report.comparison import compare
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.simulation.runs.views.view import open_run
from tests.engine.toys import cluster
from tests.replay.test_due import CONFIG, GANGS, RIGID, STREAM, made


def test_late_jobs_are_said(tmp_path: Path) -> None:
    policy = made(RIGID, *GANGS, StartBy(1200.0))
    found = replay(STREAM, cluster(1, 8), policy, RIGID, CONFIG, out=tmp_path / "run")
    late = found.summary["late_jobs"]
    assert late
    said = [line for line in compare([open_run(tmp_path / "run")]).remarks if "were due" in line]
    assert said == [
        f"milp: {late} jobs were due and could not start, at most for "
        f"{found.summary['late_max_s']:,.0f} s."
    ]
