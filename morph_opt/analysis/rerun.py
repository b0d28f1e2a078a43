"""Run the replays that the README shows, each in a process of its own, on one core."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from morph_opt.analysis.cases import Case
from morph_opt.analysis.results import Measured
from morph_opt.domain import InputError

_SAME_BYTES = ("events.jsonl", "jobs.csv")


def use_one_core() -> None:
    """Bind this process and its children to one core, where the system allows it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run_case(case: Case, runs: Path, *, twice: bool) -> Measured:
    """Replay a case into ``runs / case.slug``, replacing what an earlier call left there.

    Parameters
    ----------
    case
        What to replay.
    runs
        Parent of the run folders.
    twice
        Whether to run it again and compare the bytes of what must not differ.

    Raises
    ------
    InputError
        If the replay does not finish; carries its last line.
    """
    folder = runs / case.slug
    whole_s = _replay(case, folder)
    same = None
    if twice:
        again = runs / f"{case.slug}.again"
        _replay(case, again)
        same = all(
            (folder / name).read_bytes() == (again / name).read_bytes() for name in _SAME_BYTES
        )
        shutil.rmtree(again)
    measured = Measured(whole_s, same)
    _measured_path(case, runs).write_text(json.dumps(asdict(measured)) + "\n", encoding="utf-8")
    return measured


def _replay(case: Case, folder: Path) -> float:
    """Wall seconds of one replay from start to end of its process."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    call = [sys.executable, "-m", "morph_opt.replay", *case.arguments, "--out", str(folder)]
    began_s = time.perf_counter()
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    whole_s = time.perf_counter() - began_s
    if done.returncode not in (0, 1):  # 1: finished, and some round fell back; the table says so
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"exit {done.returncode}: {last}", field=case.command)
    return whole_s


def _measured_path(case: Case, runs: Path) -> Path:
    return runs / f"{case.slug}.measured.json"


def read_measured(case: Case, runs: Path) -> Measured | None:
    """What `run_case` measured; None for a run folder that came about otherwise."""
    path = _measured_path(case, runs)
    if not path.exists():
        return None
    try:
        return Measured(**json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise InputError(f"holds no measurement ({error})", file=str(path)) from error
