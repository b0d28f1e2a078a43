"""``python -m morph_opt.sweep.child FOLDER``: one cell, in a process of its own.

Not for users: stdin is a pipe that the worker holds. At its end the worker is gone, however it
went, and so is this process. What stands in ``FOLDER/config.toml`` was put there by the worker.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from morph_opt.commandline import LineParser, as_process, run_command
from morph_opt.commandline.types import whole

ORPHANED = 75
"""Exit status where the worker is gone (EX_TEMPFAIL of sysexits.h)."""


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m morph_opt.sweep.child", description="Run one cell.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--memory-mib", type=whole(64, 10**8))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    given = make_parser().parse_args(arguments)
    threading.Thread(target=_end_with_the_worker, daemon=True).start()
    if given.memory_mib is not None:
        bytes_ = given.memory_mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
    # Behind the limit: what is imported counts.
    from morph_opt.engine.strict import AllocationError
    from morph_opt.policies.milp import ClaimError

    return run_command(make_parser(), _run, arguments, failures=(AllocationError, ClaimError))


def _run(given: argparse.Namespace) -> int:
    from morph_opt.replay.scenario import read_scenario
    from morph_opt.runs.write import CONFIG

    scenario = read_scenario(given.folder / CONFIG)
    scenario.run(out=given.folder / "run")
    return 0


def _end_with_the_worker() -> None:
    while os.read(0, 64):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    sys.exit(as_process(main))
