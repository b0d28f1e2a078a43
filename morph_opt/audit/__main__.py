"""Command ``python -m morph_opt.audit sacct:jobs.txt --cluster 32x8``: gap to the optimum."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from morph_opt.audit import RUN
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import Number
from morph_opt.core.documents.figures import PICTURES
from morph_opt.core.domain import InputError, Range
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.traces.logs.registry import LOG_FORMATS


def make_parser() -> LineParser:
    """Return the parser."""
    from morph_opt.inputs.traces.logs.arguments import add_reading

    parser = LineParser(
        prog="python -m morph_opt.audit",
        description="Rebuild from a log which jobs ran and waited at each instant, and report "
        "which idle GPUs the optimum would have given to jobs that waited.",
        epilog=f"Formats: {', '.join(LOG_FORMATS)}, and {RUN}:FOLDER for a run of our own. "
        "Exit status: 0 done; 2 bad usage or bad input.",
    )
    add = parser.add_argument
    add("log", metavar="[FORMAT:]PATH[@from..to]", help="log, and the instants to audit (all)")
    add("--cluster", metavar="SPEC", help="cluster of the log: file or short form")
    add(
        "--every",
        type=Number(Range(1e-3, 1e9)),
        default=3600.0,
        metavar="S",
        help="seconds between two instants (3600)",
    )
    add("--json", type=Path, metavar="FILE", help="write every instant as JSON")
    add("--picture", type=Path, metavar="FILE", help=f"picture to write: {', '.join(PICTURES)}")
    add_reading(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    from morph_opt.audit.instants import audit
    from morph_opt.audit.recorded import path_of, read_recorded
    from morph_opt.audit.report import as_json, as_text, draw
    from morph_opt.core.documents import require_no_input, write_atomically
    from morph_opt.inputs.traces.logs.arguments import reading_of

    picture: Path | None = given.picture
    if picture is not None and picture.suffix not in PICTURES:
        raise InputError(
            f"must end in {', '.join(PICTURES)}, got {picture.name!r}", field="--picture"
        )
    for out in (given.json, picture):
        require_no_input(out, path_of(given.log))
    cluster = None if given.cluster is None else load_cluster(given.cluster)
    recorded = read_recorded(given.log, reading_of(given))
    if cluster is None:
        cluster = recorded.cluster
    if cluster is None:
        raise InputError("is needed: a log does not name its cluster", field="--cluster")
    found = audit(recorded, cluster, given.every)
    if given.json is not None:
        write_atomically(given.json, as_json(found, given.log))
    if picture is not None:
        draw(found, given.log, picture)
    print(as_text(found, given.log), end="")
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
