"""Child process of a sweep, which runs cells one after the other.

Not for users. The worker writes a line per cell to stdin: a folder with a ``config.toml`` and,
if the replay ends once it misses an SLO, an ``slo.json`` (it then leaves a ``missed.json``). A cell
that succeeds is answered by a line on stdout. One that fails ends the process with its status, so
that nothing of it reaches the next. When the pipe ends the worker is gone, and this process ends.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.sweep.parameters import PROCESSES

ORPHANED = 75
"""Exit status if the worker is gone (EX_TEMPFAIL of sysexits.h)."""


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m morph_opt.sweep.child", description="Run cells.")
    parser.add_argument("--memory-mib", type=whole(64, 10**8))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    given = make_parser().parse_args(arguments)
    folders: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read, args=(folders,), daemon=True).start()
    if given.memory_mib is not None:
        bytes_ = given.memory_mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
    answers = os.dup(1)
    _onto(Path(os.devnull), 1)  # a user's policy may print
    for _ in range(PROCESSES.cells):
        try:
            folder = Path(folders.get(timeout=PROCESSES.idle_s))
        except Empty:
            break
        _onto(folder / "stderr", 2)
        cell = make_parser()
        cell.set_defaults(folder=folder)
        status = run_command(cell, _run, [])
        if status:
            return status
        sys.stderr.flush()
        os.write(answers, b"done\n")
    return 0


def _run(given: argparse.Namespace) -> int:
    from morph_opt.replay.prepare import prepare
    from morph_opt.replay.run import run_prepared
    from morph_opt.replay.scenario import read_scenario
    from morph_opt.simulation.runs.early import MissedError
    from morph_opt.simulation.runs.slo import Slo
    from morph_opt.simulation.runs.write import CONFIG
    from morph_opt.sweep.order import MISSED, SLO

    file = given.folder / SLO
    slo = Slo(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else None
    scenario = read_scenario(given.folder / CONFIG)
    try:
        run_prepared(prepare(scenario), given.folder / "run", slo=slo)
    except MissedError as missed:
        (given.folder / MISSED).write_text(missed.to_json(), encoding="utf-8")
    return 0


def _onto(file: Path, descriptor: int) -> None:
    """Redirect a stream of this process to the end of a file."""
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, descriptor)
    os.close(opened)


def _read(folders: SimpleQueue[str]) -> None:
    """Pass on the lines of stdin; end this process when the worker is gone."""
    left = b""
    while data := os.read(0, 4096):
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            folders.put(os.fsdecode(line))
    os._exit(ORPHANED)


if __name__ == "__main__":
    sys.exit(as_process(main))
