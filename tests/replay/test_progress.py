"""What a replay says while it runs: figures by hand, on a terminal, in a log, on a full screen."""

from __future__ import annotations

import io
import sys
from collections import deque

import numpy as np
import pytest

from morph_opt.replay import cli
from morph_opt.replay.outlook import Outlook
from morph_opt.replay.terminal import Meter, duration, shown_progress, sparkline
from morph_opt.simulation.events.log import RoundDecided


def decided(index: int, active: int, running: int, gpus: int, gap: float | None) -> RoundDecided:
    return RoundDecided(60.0 * index, index, active, running, gpus, "optimal", gap, 0, 0.0, None)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def meter() -> Meter:
    """After 40 s: 10 of 50 jobs complete, 24 of 64 GPUs held, 12 jobs active and 5 of them run.

    28 jobs are to come. 22 submissions and 10 completions took 40 s, so the 68 that are left take
    85 s.
    """
    clock = Clock()
    found = Meter(50, 64, clock)
    coming = np.full(28, 6000.0)
    left = Outlook(5400.0, 64.0, 12, 12 * 3600.0, 3600.0, coming, coming, np.ones(28))
    found.foresee(lambda: left)
    found.update(decided(0, 0, 0, 0, None), 0)
    clock.now += 40.0
    found.update(decided(90, 12, 5, 24, 1e-5), 10)
    return found


def test_the_line_has_every_figure(meter: Meter) -> None:
    assert meter.line() == (
        "40 s: 10 of 50 jobs complete, 24 of 64 GPUs, 7 queued, gap 0.001 %, simulated 1.5 h, "
        "about 85 s left"
    )


def test_progress_has_no_estimate_before_the_first_completion() -> None:
    found = Meter(50, 64, Clock())
    found.update(decided(1, 3, 3, 24, None), 0)
    assert found.left_s is None
    assert "left" not in found.line()
    assert "gap" not in found.line()


def test_durations_and_sparklines() -> None:
    assert [duration(s) for s in (5.0, 119.0, 600.0, 9000.0)] == ["5 s", "119 s", "10 min", "2.5 h"]
    assert sparkline(deque([0.0, 4.0, 8.0, 9.0]), 8.0) == " ▄██"
    assert sparkline(deque([0.0]), 0.0) == " "


def test_the_view_shows_the_same_figures(meter: Meter) -> None:
    """It has as many lines before the first round as after it, each drawn in its place."""
    said = "\n".join(meter.view())
    assert len(meter.view()) == len(Meter(50, 64, Clock()).view())
    for text in ("10 of 50", "24 of 64", "7 of 12 active", "gap 0.001 %", "about 85 s left"):
        assert text in said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_watched_replay_draws_on_the_terminal_and_prints_its_result(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    out = str(tmp_path_factory.mktemp("watch") / "run")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    line = "--trace tests.engine.toys:trace/6 --policy tests.engine.toys:make_fifo --watch --out"
    assert cli.main([*line.split(), out]) == 0
    assert "jobs completed" in capsys.readouterr().out
    for text in ("tests.engine.toys:trace/6, ", "jobs complete", "GPUs in use"):
        assert text in terminal.getvalue()


def test_a_full_screen_needs_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("watch") / "run"
    assert cli.main(["--trace", "naive", "--watch", "--out", str(out)]) == 2
    assert "--watch: needs a terminal" in capsys.readouterr().err
    assert not out.exists()


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(Meter(5, 8), "t", quiet=False, watch=False) as update:
        assert update is not None
        update(decided(1, 3, 3, 4, None), 1)
    assert capsys.readouterr().err == ""  # the first line comes after half a minute
    with shown_progress(Meter(5, 8), "t", quiet=True, watch=False) as update:
        assert update is None


def test_quiet_and_watch_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--trace", "naive", "--watch", "--quiet"]) == 2
    assert "--watch: shows nothing with --quiet" in capsys.readouterr().err
