"""Worker of a sweep: starts a child process for a cell, watches it, and returns its files.

A crash, a hang or a full memory ends the child and is a row of the table under every executor; the
worker itself runs no replay. A child whose cell succeeded waits for the next one, because much of a
short replay is the start of its process. Where memory is limited each cell has a process to itself:
memory that earlier cells left would count.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from morph_opt.core.documents.parse import parse_toml
from morph_opt.core.documents.writing import toml_text
from morph_opt.inputs.traces.registry import trace_paths, with_paths
from morph_opt.scheduling.policies.registry import policy_files, with_policy_files
from morph_opt.simulation.runs.write import CONFIG, SUMMARY
from morph_opt.sweep.order import MISSED, SLO, Done, Failure, Order
from morph_opt.sweep.parameters import PROCESSES

STOP = threading.Event()
"""Event that is set once this process gives up, after which no child starts."""

_HUNGRY = re.compile(r"memory|MemoryError|bad_alloc|map segment|cannot allocate", re.IGNORECASE)


def work(order: Order) -> Done | Failure:
    """Run a cell and return its result or failure; nothing is raised.

    Parameters
    ----------
    order
        Cell to run.
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
        status, message = _supervised(order, folder)
        wall_s = time.monotonic() - began
        if status == 0:
            run = folder / "run"
            try:
                missed = (folder / MISSED).exists()
                names = [folder / MISSED] if missed else [run / n for n in (SUMMARY, *order.keep)]
                files = {path.name: path.read_bytes() for path in names}
            except OSError as error:
                return Failure("error", 0, f"left no {error.filename}", wall_s, host)
            return Done(files, wall_s, host)
    if status is None:
        limit = f"took longer than {order.limits.seconds:g} s"
        ended = Failure("lost", None, "given up", wall_s, host)
        return ended if STOP.is_set() else Failure("time", None, limit, wall_s, host)
    return Failure(_kind(order, status, message), status, message, wall_s, host)


def _kind(order: Order, status: int, message: str) -> str:
    if order.limits.memory_mib is not None and (
        _HUNGRY.search(message) or status == -signal.SIGKILL
    ):
        return "memory"
    return "signal" if status < 0 else "input" if status == 2 else "error"


def _lay_out(order: Order, folder: Path) -> None:
    """Write the child's inputs, in folders of their own so that file names stay."""
    tables = parse_toml(order.config, None)
    folders: dict[Path, Path] = {}
    places: dict[str, str] = {}
    for path, data in order.files:
        here = folders.setdefault(Path(path).parent, folder / "inputs" / str(len(folders)))
        here.mkdir(parents=True, exist_ok=True)
        (here / Path(path).name).write_bytes(data)
        places |= {path: str(here / Path(path).name), str(Path(path).parent): str(here)}
    for part in ("workload", "failures", "scheduler"):
        for name, value in tables[part].items():
            if isinstance(value, str):
                tables[part][name] = places.get(value, value)
    trace = tables["workload"]["trace"]
    read = trace_paths(trace)
    if read and all(path in places for path in read):
        tables["workload"]["trace"] = with_paths(trace, [places[path] for path in read])
    policy = tables["scheduler"]["policy"]
    of_policy = [places.get(path, path) for path in policy_files(policy)]
    tables["scheduler"]["policy"] = with_policy_files(policy, of_policy)
    (folder / CONFIG).write_text(toml_text(tables), encoding="utf-8")
    if order.slo is not None:
        (folder / SLO).write_text(json.dumps(asdict(order.slo)), encoding="utf-8")


_Here = tuple[str, tuple[tuple[str, str], ...]]
_idle: dict[_Here, list[subprocess.Popen[bytes]]] = {}
"""Children without a cell, by the folder and environment in which they were started."""


def _here() -> _Here:
    return os.getcwd(), tuple(sorted(os.environ.items()))


@atexit.register
def end_idle() -> None:
    """End all children that wait for a cell."""
    for children in _idle.values():
        while children:
            _end(children.pop())


def _supervised(order: Order, folder: Path) -> tuple[int | None, str]:
    """Run a cell in a child; return its status (None if time ran out) and last line of stderr."""
    ends = time.monotonic() + order.limits.seconds
    alone = order.limits.memory_mib is not None
    while True:
        waiting = None if alone else _taken()
        child = waiting or _started(order, folder)
        good = False
        try:
            status, answered = _waited(child, folder, ends)
            good = answered and not alone and not STOP.is_set()
        finally:
            if not good:
                _end(child)
        if good:
            _idle.setdefault(_here(), []).append(child)
        if waiting is None or answered or status != 0:
            break
        # The child had ended while it waited, before it could take the cell.
    lines = _tail(folder / "stderr")
    return status, next((line.strip() for line in reversed(lines) if line.strip()), "")[:500]


def _taken() -> subprocess.Popen[bytes] | None:
    """Take a waiting child; None if there is none, or another thread took it."""
    with suppress(IndexError, KeyError):
        return _idle[_here()].pop()
    return None


def _started(order: Order, folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "morph_opt.sweep.child"]
    if order.limits.memory_mib is not None:
        words += ["--memory-mib", str(order.limits.memory_mib)]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    with (folder / "stderr").open("ab") as stderr:  # until it has a cell
        return subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, **threads},
            start_new_session=True,
        )


def _tail(errors: Path) -> list[str]:
    data = errors.read_bytes() if errors.exists() else b""
    return data[-4000:].decode("utf-8", errors="replace").splitlines()


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()


def _waited(child: subprocess.Popen[bytes], folder: Path, ends: float) -> tuple[int | None, bool]:
    """Wait for a cell; return its status (None if time ran out) and whether the child lives on."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(BrokenPipeError):  # the child has ended; only its status is left
        os.write(child.stdin.fileno(), os.fsencode(folder) + b"\n")
    answer = select.poll()
    answer.register(child.stdout.fileno(), select.POLLIN | select.POLLHUP)
    while not STOP.is_set():
        left = ends - time.monotonic()
        if left <= 0.0:
            return None, False
        if answer.poll(1000.0 * min(PROCESSES.poll_s, left)):
            if os.read(child.stdout.fileno(), 64):
                return 0, True
            with suppress(subprocess.TimeoutExpired):
                return child.wait(timeout=max(0.0, ends - time.monotonic())), False
            return None, False
    return None, False
