"""SIGKILL in the middle, resume, same bytes: with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "morph_opt.replay"]
RUN = ["--trace", "tests.engine.toys:trace/60", "--policy", "tests.engine.toys:make_shuffler"]
RUN += ["--cluster", "2x4", "--restart-s", "30", "--quiet"]


def searching(root: Path) -> dict[str, str]:
    """An environment that finds the toys: a resumed run looks for nothing in its folder."""
    return {**os.environ, "PYTHONPATH": str(root)}


def finished(arguments: list[str], root: Path) -> None:
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=root,
        env=searching(root),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def killed_after(rounds: int, folder: Path, root: Path) -> int:
    """Start a run and kill it as soon as its log has so many rounds; returns how many it had."""
    log = folder / "events.jsonl.partial"
    with subprocess.Popen(
        [*COMMAND, *RUN, "--out", str(folder)],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        for _ in range(20_000):
            count = log.read_bytes().count(b'"event":"round"') if log.exists() else -1
            if count >= rounds or process.poll() is not None:
                break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert log.exists(), "the run ended before it could be killed"
    return log.read_bytes().count(b'"event":"round"')


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, project_root: Path) -> Path:
    folder = tmp_path_factory.mktemp("kill") / "whole"
    finished([*RUN, "--out", str(folder)], project_root)
    return folder


@pytest.mark.parametrize("rounds", [0, 3, 40, 90])
def test_kill_and_resume(whole: Path, tmp_path: Path, project_root: Path, rounds: int) -> None:
    folder = tmp_path / "run"
    had = killed_after(rounds, folder, project_root)
    total = (whole / "events.jsonl").read_bytes().count(b'"event":"round"')
    assert rounds <= had < total
    finished(["--resume", str(folder), "--allow-code", "--quiet"], project_root)
    for name in ("events.jsonl", "jobs.csv", "config.toml"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes()
    assert {p.name for p in folder.iterdir()} == {p.name for p in whole.iterdir()}


def test_killed_twice(whole: Path, tmp_path: Path, project_root: Path) -> None:
    folder = tmp_path / "run"
    killed_after(20, folder, project_root)
    log = folder / "events.jsonl.partial"
    with subprocess.Popen(
        [*COMMAND, "--resume", str(folder), "--allow-code", "--quiet"],
        cwd=project_root,
        env=searching(project_root),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        for _ in range(20_000):
            seen = log.read_bytes().count(b'"event":"round"') if log.exists() else -1
            if seen >= 60 or process.poll() is not None:
                break
            time.sleep(0.002)
        process.kill()
    assert log.exists()
    finished(["--resume", str(folder), "--allow-code", "--quiet"], project_root)
    assert (folder / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()
