"""A bounded part of the option lines; and that an option that nobody reads is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.checks.robustness.fuzz import Tally
from benchmarks.checks.robustness.lines import BASES, campaign, inside, try_line, watching
from morph_opt.core.commandline.parser import LineParser
from tests.known import KNOWN

LINES = 60


def test_random_lines_are_run_or_refused_and_nothing_is_ignored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MORPH_OPT_DATA", raising=False)
    tally, findings = campaign(0, 0, LINES)
    assert findings == []
    assert tally.accepted
    assert tally.refused


def test_every_cheap_command_is_among_them() -> None:
    """The others replay for minutes, draw, ask a Slurm, or list what is installed."""
    left_out = {known.name for known in KNOWN} - set(BASES)
    of_runs = {"report", "compare", "export", "explain"}
    of_replays = {"plan", "sweep", "hindcast"}
    of_reports = {"readme", "acme", "perf-study"}
    assert left_out == {"solvers", "report.picture", "live"} | of_runs | of_replays | of_reports


def test_unread_argument_is_found() -> None:
    with watching() as made:
        parser = LineParser(prog="x")
        parser.add_argument("--gap")
        parser.add_argument("--seed")
        found = parser.parse_args(["--gap", "1", "--seed", "2"])
        assert found.gap == "1"
    assert made[-1]._seen - {"_seen"} == {"gap"}


def test_a_line_is_tried_in_a_folder_of_its_own(tmp_path: Path) -> None:
    from random import Random

    before = Path.cwd()
    with inside(tmp_path):
        assert Path.cwd() == tmp_path
        try_line(Random(1), 0, Tally("one"))
    assert Path.cwd() == before
