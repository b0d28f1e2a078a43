"""A worker's part: it starts a child process for a cell, watches it, and sends its files back.

A solver's crash, hang or hunger for memory ends the child and is a row of the table under every
executor; the worker itself runs no replay.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from morph_opt.documents.parse import parse_toml
from morph_opt.documents.writing import toml_text
from morph_opt.runs.write import CONFIG, SUMMARY
from morph_opt.sweep.order import Done, Failure, Order

STOP = threading.Event()
"""Set where this process gives up: children are ended and no further ones started."""

_POLL_S = 0.25
_HUNGRY = re.compile(r"memory|MemoryError|bad_alloc|map segment|cannot allocate", re.IGNORECASE)


def work(order: Order) -> Done | Failure:
    """Run a cell; every way in which it can end is a value.

    Parameters
    ----------
    order
        The cell.
    """
    for attempt in range(1, order.limits.attempts + 1):
        outcome = replace(_once(order), attempts=attempt)
        if isinstance(outcome, Done) or outcome.kind != "signal" or STOP.is_set():
            break
    return outcome


def _once(order: Order) -> Done | Failure:
    began = time.monotonic()
    host = socket.gethostname()
    with tempfile.TemporaryDirectory(prefix="morph-opt-cell-") as temporary:
        folder = Path(temporary)
        _lay_out(order, folder)
        status, said = _supervised(order, folder)
        wall_s = time.monotonic() - began
        if status == 0:
            run = folder / "run"
            try:
                files = {name: (run / name).read_bytes() for name in (SUMMARY, *order.keep)}
            except OSError as error:
                return Failure("error", 0, f"left no {error.filename}", wall_s, host)
            return Done(files, wall_s, host)
    if status is None:
        limit = f"took longer than {order.limits.seconds:g} s"
        ended = Failure("lost", None, "given up", wall_s, host)
        return ended if STOP.is_set() else Failure("time", None, limit, wall_s, host)
    return Failure(_kind(order, status, said), status, said, wall_s, host)


def _kind(order: Order, status: int, said: str) -> str:
    if order.limits.memory_mib is not None and (_HUNGRY.search(said) or status == -signal.SIGKILL):
        return "memory"
    return "signal" if status < 0 else "input" if status == 2 else "error"


def _lay_out(order: Order, folder: Path) -> None:
    """Write what the child reads, files under folders of their own so that names stay."""
    tables = parse_toml(order.config, None)
    for number, (path, data) in enumerate(order.files):
        place = folder / "inputs" / str(number) / Path(path).name
        place.parent.mkdir(parents=True)
        place.write_bytes(data)
        for part in ("workload", "failures", "scheduler"):
            for name, value in tables[part].items():
                if isinstance(value, str) and (value == path or value.endswith(f"/{path}")):
                    tables[part][name] = value[: len(value) - len(path)] + str(place)
    (folder / CONFIG).write_text(toml_text(tables), encoding="utf-8")


def _supervised(order: Order, folder: Path) -> tuple[int | None, str]:
    """Exit status, None where time ran out, and the last line of stderr."""
    words = [sys.executable, "-m", "morph_opt.sweep.child", str(folder)]
    if order.limits.memory_mib is not None:
        words += ["--memory-mib", str(order.limits.memory_mib)]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    errors = folder / "stderr"
    with errors.open("wb") as stderr:
        child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, **threads},
            start_new_session=True,
        )
        try:
            status = _waited(child, order.limits.seconds)
        finally:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            if child.stdin is not None:
                child.stdin.close()
    lines = errors.read_bytes()[-4000:].decode("utf-8", errors="replace").splitlines()
    return status, next((line.strip() for line in reversed(lines) if line.strip()), "")[:500]


def _waited(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    ends = time.monotonic() + seconds
    while not STOP.is_set():
        left = ends - time.monotonic()
        if left <= 0.0:
            return None
        with suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=min(_POLL_S, left))
    return None
