"""Process of `isolated`: ``python -m ... PIPE_FD SOLVER MEMORY_MIB``."""

from __future__ import annotations

import ctypes
import pickle
import resource
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from morph_opt.core.domain import InputError
from morph_opt.scheduling.solvers.registry import make_solver

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Serve solves until the pipe closes."""
    pipe = Connection(int(arguments[0]))
    _die_with_parent()
    try:
        solver = make_solver(arguments[1])
    except InputError as error:
        pipe.send_bytes(pickle.dumps(str(error)))
        return 2
    _limit_memory(int(arguments[2]))
    pipe.send_bytes(pickle.dumps(solver.capabilities))
    while True:
        try:
            model, limits, start = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return 0
        pipe.send_bytes(pickle.dumps(solver.solve(model, limits, start), protocol=5))


def _die_with_parent() -> None:
    """Ask the kernel to end this worker when its parent is killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_memory(memory_mib: int) -> None:
    """Limit the address space, without what the library has mapped so far."""
    if memory_mib <= 0:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory_mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
