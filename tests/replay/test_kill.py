"""SIGKILL in the middle of a real process, resume in this one, same bytes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from morph_opt.replay.cli import main
from tests.waiting import until

COMMAND = [sys.executable, "-m", "morph_opt.replay"]
RUN = ["--trace", "tests.engine.toys:trace/60", "--policy", "tests.engine.toys:make_shuffler"]
RUN += ["--cluster", "2x4", "--restart-s", "30", "--quiet"]


def searching(root: Path) -> dict[str, str]:
    """An environment that finds the toys: a resumed run looks for nothing in its folder."""
    return {**os.environ, "PYTHONPATH": str(root)}


def finished(arguments: list[str]) -> None:
    assert main(arguments) == 0


def killed_after(more: int, words: list[str], log: Path, root: Path) -> int:
    """Kill a run that hangs after so many decisions more, once they are logged; all logged."""

    def counted() -> int:
        return log.read_bytes().count(b'"event":"round"') if log.exists() else -1

    rounds = max(0, counted()) + more
    with subprocess.Popen(
        [*COMMAND, *words],
        cwd=root,
        env=searching(root) | {"HANGS_AFTER": str(more)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        until(lambda: counted() >= rounds or process.poll() is not None)
        assert process.poll() is None, "the run ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    return counted()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill") / "whole"
    finished([*RUN, "--out", str(folder)])
    return folder


@pytest.mark.parametrize("rounds", [0, 40])
def test_kill_and_resume(whole: Path, tmp_path: Path, project_root: Path, rounds: int) -> None:
    folder = tmp_path / "run"
    log = folder / "events.jsonl.partial"
    had = killed_after(rounds, [*RUN, "--out", str(folder)], log, project_root)
    total = (whole / "events.jsonl").read_bytes().count(b'"event":"round"')
    assert rounds <= had < total
    finished(["--resume", str(folder), "--allow-code", "--quiet"])
    for name in ("events.jsonl", "jobs.csv", "config.toml"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert {p.name for p in folder.iterdir()} == {p.name for p in whole.iterdir()}


def test_killed_twice(whole: Path, tmp_path: Path, project_root: Path) -> None:
    folder = tmp_path / "run"
    log = folder / "events.jsonl.partial"
    again = ["--resume", str(folder), "--allow-code", "--quiet"]
    assert killed_after(20, [*RUN, "--out", str(folder)], log, project_root) >= 20
    assert killed_after(40, again, log, project_root) >= 60
    finished(again)
    assert (folder / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()
