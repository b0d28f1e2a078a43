"""Solver in a process of its own: a crash, a hang or a full memory ends one solve, no more.

The process is started once, reused, and replaced after it died. Models are sent as pickles of plain
arrays, over a pipe that no library can print into.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection, Pipe
from typing import IO

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Capabilities
from morph_opt.scheduling.solvers.outcome import Limits, Outcome, Status, Stop

START_S = 60.0
"""Longest time that a worker may take to import its library, in seconds."""

_OUT_OF_MEMORY = ("bad_alloc", "MemoryError", "Cannot allocate memory", "out of memory")


class WorkerError(Exception):
    """Failure to start a worker; the message is its last line of stderr."""


class IsolatedSolver:
    """Adapter ``inner``, run in a process of its own.

    Parameters
    ----------
    inner
        Name as for `morph_opt.scheduling.solvers.registry.make_solver`.
    memory_mib
        Memory that a solve may take in addition to the loaded library; None if unlimited.
    grace_s
        Seconds beyond ``Limits.time_s`` after which the worker is killed.
    """

    def __init__(self, inner: str, *, memory_mib: int | None = None, grace_s: float = 5.0) -> None:
        self.name = f"worker:{inner}"
        self._inner = inner
        self._memory_mib = memory_mib
        self._grace_s = grace_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._errors: IO[bytes] | None = None
        self._capabilities: Capabilities | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Abilities of the adapter inside; asking starts the worker."""
        self._connect()
        if self._capabilities is None:
            raise WorkerError("the worker did not state its capabilities")
        return self._capabilities

    @property
    def process_id(self) -> int | None:
        """Process id of the running worker; None if there is none."""
        return None if self._process is None else self._process.pid

    def __getstate__(self) -> dict[str, object]:
        return {
            "inner": self._inner,
            "memory_mib": self._memory_mib,
            "grace_s": self._grace_s,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the three arguments above

    def __del__(self) -> None:
        self.close()

    def solve(self, model: LinearModel, limits: Limits, start: Floats | None = None) -> Outcome:
        """Solve as any adapter does, and enforce the limits from outside."""
        began = time.perf_counter()
        try:
            pipe = self._connect()
            pipe.send_bytes(pickle.dumps((model, limits, start), protocol=5))
            if not pipe.poll(limits.time_s + self._grace_s):
                return self._hung(limits, began)
            outcome = pickle.loads(pipe.recv_bytes())
        except WorkerError as error:
            return self._ended(Status.ERROR, Stop.FAILED, str(error), began)
        except (EOFError, OSError):
            return self._died(began)
        if not isinstance(outcome, Outcome):
            return self._ended(Status.ERROR, Stop.FAILED, f"the worker answered {outcome!r}", began)
        return outcome

    def close(self) -> None:
        """Kill the worker and whatever it started."""
        process, self._process = self._process, None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _connect(self) -> Connection:
        if self._pipe is not None and self._process is not None and self._process.poll() is None:
            return self._pipe
        self.close()
        ours, theirs = Pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the worker
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "morph_opt.scheduling.solvers.worker.process",
                str(theirs.fileno()),
                self._inner,
                str(self._memory_mib or 0),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            start_new_session=True,
        )
        theirs.close()
        self._pipe = ours
        try:
            answer = pickle.loads(ours.recv_bytes()) if ours.poll(START_S) else "it did not answer"
        except (EOFError, OSError):
            answer = self._last_words()
        if not isinstance(answer, Capabilities):
            self.close()
            raise WorkerError(f"the worker for {self._inner} did not start: {answer}")
        self._capabilities = answer
        return ours

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _hung(self, limits: Limits, began: float) -> Outcome:
        self.close()
        after = limits.time_s + self._grace_s
        message = f"killed after {after:g} s without an answer"
        return self._ended(Status.NO_SOLUTION, Stop.TIME_LIMIT, message, began)

    def _died(self, began: float) -> Outcome:
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(timeout=5.0)
        words = self._last_words()
        self.close()
        if any(mark in words for mark in _OUT_OF_MEMORY):
            return self._ended(Status.NO_SOLUTION, Stop.MEMORY_LIMIT, words, began)
        reason = (
            f"signal {signal.Signals(-code).name}"
            if code is not None and code < 0
            else (f"exit code {code}")
        )
        return self._ended(
            Status.ERROR, Stop.FAILED, f"the worker died with {reason}; {words}".rstrip("; "), began
        )

    def _ended(self, status: Status, stop: Stop, message: str, began: float) -> Outcome:
        return Outcome(
            status, stop, self.name, solve_s=time.perf_counter() - began, message=message
        )
