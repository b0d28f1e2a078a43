"""Run the replays that the README shows, each in a process of its own, on one core."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from benchmarks.readme.cases import Case
from benchmarks.readme.results import Measured
from morph_opt.core.documents import exists, read_json, write_atomically
from morph_opt.core.domain import InputError

_SAME_BYTES = ("events.jsonl", "jobs.csv")


def run_cases(chosen: Sequence[Case], runs: Path, *, twice: Container[str], at_once: int) -> None:
    """Replay these cases, so many at once, each on a core of its own where the system allows it.

    Parameters
    ----------
    chosen
        What to replay.
    runs
        Parent of the run folders.
    twice
        Slugs of the cases that are run again to compare the bytes.
    at_once
        Replays at a time, at least 1. Times are comparable only if the cores are idle otherwise.

    Raises
    ------
    InputError
        If a replay does not finish.
    """
    cores: SimpleQueue[int] = SimpleQueue()
    if hasattr(os, "sched_getaffinity"):
        for core in sorted(os.sched_getaffinity(0), reverse=True):
            cores.put(core)

    def run(case: Case) -> None:
        measured = run_case(case, runs, twice=case.slug in twice)
        print(f"{measured.whole_s:8.1f} s  {case.command}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(at_once, initializer=_bind_thread, initargs=(cores,)) as pool:
        running = [pool.submit(run, case) for case in chosen]
        try:
            for future in running:
                future.result()
        except InputError:
            pool.shutdown(cancel_futures=True)
            raise


def _bind_thread(cores: SimpleQueue[int]) -> None:
    """Bind this thread, and so the processes that it starts, to the next core."""
    if not cores.empty():
        core = cores.get()
        os.sched_setaffinity(0, {core})
        cores.put(core)


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
    write_atomically(_measured_path(case, runs), json.dumps(asdict(measured)) + "\n")
    return measured


def _replay(case: Case, folder: Path) -> float:
    """Wall seconds of one replay from start to end of its process."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    call = [sys.executable, "-m", "morph_opt.replay", *case.arguments, "--out", str(folder)]
    began_s = time.perf_counter()
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    whole_s = time.perf_counter() - began_s
    # exit 1 with a summary: finished, and some round fell back; the table says so
    finished = done.returncode in (0, 1) and (folder / "summary.json").exists()
    if not finished:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"exit {done.returncode}: {last}", field=case.command)
    return whole_s


def _measured_path(case: Case, runs: Path) -> Path:
    return runs / f"{case.slug}.measured.json"


def read_measured(case: Case, runs: Path) -> Measured | None:
    """What `run_case` measured; None for a run folder that came about otherwise."""
    path = _measured_path(case, runs)
    if not exists(path):
        return None
    try:
        return Measured(**read_json(path))
    except TypeError as error:
        raise InputError(f"holds no measurement ({error})", file=str(path)) from error
