"""Command ``python -m morph_opt.hindcast jobs.txt --cluster 32x8 --policy slurm:slurm.conf``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from morph_opt.core.commandline.options import add_options, flagged, given_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import SEEDS, InputError
from morph_opt.inputs.traces.options import LogOptions
from morph_opt.scheduling.policies.options import OPTIONS, Scheduler

REPLAYS = 20
"""Replays if the user names no number."""

_DECIDING = ("policy", "objective", "durations")


def make_parser() -> LineParser:
    """Return the parser."""
    parser = LineParser(
        prog="python -m morph_opt.hindcast",
        description="Replay a log under the site's own scheduler, several times with shaken "
        "instants, and state how well the simulated waits reproduce the recorded ones.",
        epilog="Page: docs/batch-schedulers.md. Exit status: 0 done, whatever the verdict; "
        "2 bad usage or bad input.",
    )
    parser.add_argument("log", metavar="[FORMAT:]PATH[@from..to]", help="log of the site")
    parser.add_argument("--cluster", metavar="SPEC", help="cluster of the log: file or short form")
    add_options(parser, Scheduler, _DECIDING)
    parser.add_argument(
        "--replays",
        type=whole(2, 10_000),
        default=REPLAYS,
        metavar="K",
        help=f"number of shaken replays ({REPLAYS})",
    )
    parser.add_argument(
        "--seed",
        type=whole(int(SEEDS.low), int(SEEDS.high)),
        default=0,
        metavar="N",
        help="seed of the shaking (0); replay k draws by N and k",
    )
    parser.add_argument("--json", action="store_true", help="print all figures, as JSON")
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    add_options(parser.add_argument_group("jobs of the log (docs/logs.md)"), LogOptions)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    from morph_opt.hindcast.recorded import read_waits
    from morph_opt.hindcast.report import as_json, as_text
    from morph_opt.hindcast.shaken import prepared_site, shaken_replays
    from morph_opt.hindcast.statement import state
    from morph_opt.inputs.clusters import load_cluster
    from morph_opt.scheduling.policies.registry import resolve

    if given.cluster is None:
        raise InputError("is needed: a log does not name its cluster", field="--cluster")
    chosen = given_options(given, Scheduler)
    if "policy" not in chosen:
        raise InputError(
            "is needed: the scheduler of the site, such as slurm:FILE", field="--policy"
        )

    def progress(done: int) -> None:
        if not given.quiet:
            print(f"replay {done} of {given.replays}", file=sys.stderr)

    try:
        cluster = load_cluster(given.cluster)
        scheduler = Scheduler(**chosen)
        decider = resolve(scheduler.policy, scheduler.objective, follow=False)
        decider.require_understood(name for name in chosen if name in OPTIONS)
        recorded = read_waits(given.log, given_options(given, LogOptions))
        prepared = prepared_site(recorded.loaded, cluster, scheduler)
        shaken = shaken_replays(prepared, given.replays, given.seed, progress)
    except InputError as error:
        raise flagged(error, LogOptions, Scheduler) from error
    found = state(recorded, shaken)
    write = as_json if given.json else as_text
    others = (f"{name} {chosen[name]}" for name in _DECIDING[1:] if name in chosen)
    print(write(found, given.log, ", ".join((given.policy, *others)), given.seed), end="")
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
