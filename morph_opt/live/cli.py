"""Command line: ``python -m morph_opt.live observe|advise|act|release-all|replay``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.commandline.options import add_options, given_options
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import InputError, Range
from morph_opt.core.domain.options import asked
from morph_opt.scheduling.policies.options import OPTIONS, PolicyOptions, Scheduler

if TYPE_CHECKING:
    from morph_opt.live.moving import Moving
    from morph_opt.live.scheduler import Scheduler as Beside
    from morph_opt.live.settings import Settings
    from morph_opt.live.turn import Mode

LOOKS = {
    "observe": "decide as if it acted, and log what it would do and what happens instead",
    "advise": "decide as observe does, and write the commands for somebody to carry out",
    "act": "decide, and carry out the commands within the powers that the settings name",
}
FOLDER = Path("runs/live")
MILP = "milp"


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(
        prog="python -m morph_opt.live",
        description="Control a running Slurm, or Kubernetes (experimental): look, advise, or act "
        "within powers that are all off until they are named.",
        epilog="Exit status: 0 done; 1 steps of --moves are left, or jobs were not "
        "released; 2 bad usage or input, no answer, no right, or another controller: nothing was "
        "done.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, help_ in LOOKS.items():
        one = commands.add_parser(name, help=help_)
        _common(one)
        one.add_argument("--turns", type=whole(1, 10**9), metavar="N", help="end after N turns")
        one.add_argument("--watch", action="store_true", help="show each turn in the terminal")
        one.add_argument(
            "--policy", default=MILP, metavar="NAME", help="policy that decides (milp)"
        )
        add_options(one, Scheduler, OPTIONS)
        one.add_argument(
            "--moves",
            type=Path,
            metavar="FILE",
            help="carry out the steps of this answer (python -m morph_opt.moves --format json) "
            "instead of a policy's decisions, and end",
        )
        one.add_argument(
            "--give-up-s",
            type=Number(Range(1.0, 1e7)),
            default=600.0,
            metavar="S",
            help="end after S seconds without progress, with --moves (default 600)",
        )
        one.add_argument(
            "--belief",
            choices=("truth", "measured"),
            default="truth",
            help="truth, or measured: correct the table by speeds that jobs report (default truth)",
        )
        one.only_with("--give-up-s", "--moves")
        if name == "act":
            one.add_argument("--yes", action="store_true", help="confirm that jobs may be changed")
    back = commands.add_parser("release-all", help="give every job back to the plain scheduler")
    _common(back)
    back.add_argument("--yes", action="store_true", help="confirm that jobs may be changed")
    back.add_argument(
        "--older-than",
        type=whole(1, 10**9),
        metavar="S",
        help="release only if the last turn is older than S seconds: for a watchdog by cron",
    )
    again = commands.add_parser("replay", help="write the run folder of an audit log")
    again.add_argument(
        "audit", type=Path, metavar="AUDIT.jsonl", help="audit log in a controller's folder"
    )
    again.add_argument("--out", type=Path, required=True, metavar="DIR", help="run folder to write")
    return parser


def _common(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--config", type=Path, required=True, metavar="LIVE.toml", help="file of settings"
    )
    one.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help="folder of jobs, rounds and the audit log (default %(default)s)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _main, arguments)


def _main(given: argparse.Namespace) -> int:
    if given.command == "replay":
        from morph_opt.live.history import write_run

        write_run(given.audit, given.out)
        return 0
    if "yes" in given and not given.yes:
        rule = f"is needed: {given.command} changes jobs of the cluster"
        raise InputError(rule, field="--yes")
    return _release(given) if given.command == "release-all" else _turns(given)


def _turns(given: argparse.Namespace) -> int:
    from morph_opt.live.settings import read_settings
    from morph_opt.live.turn import Controller

    mode, settings = mode_of(given), read_settings(given.config)
    scheduler = _scheduler(settings)
    controller = Controller(scheduler, settings, mode, given.folder)
    try:
        controller.run(given.turns, given.watch)
    except KeyboardInterrupt:
        print(
            "ended; jobs that wait for it begin by release-all, beside Slurm by themselves too",
            file=sys.stderr,
        )
        return 0
    finally:
        controller.close()
    return 0 if mode.moves is None else _moved(mode.moves, scheduler, given)


def _moved(moves: Moving, scheduler: Beside, given: argparse.Namespace) -> int:
    """Give all jobs back after moves, print what was done, and return the exit status."""
    from morph_opt.live.execution import release_all

    print("\n".join(moves.lines()))
    if given.command != "act" or not moves.over:
        return 0
    _, refused = release_all(scheduler, given.folder, None)
    for line in refused:
        print(line, file=sys.stderr)
    return int(bool(refused) or not moves.done)


def _scheduler(settings: Settings) -> Beside:
    """Return the client of the scheduler that the settings name."""
    if settings.scheduler == "kubernetes":
        from morph_opt.live.kube.cluster import Kubernetes

        return Kubernetes(settings)
    from morph_opt.live.slurm import Slurm

    return Slurm(settings)


def mode_of(given: argparse.Namespace) -> Mode:
    """Return the mode of the controller."""
    from morph_opt.live.turn import Mode, read_own_rules
    from morph_opt.scheduling.policies.auto import AUTO
    from morph_opt.scheduling.policies.registry import resolve

    options = {k: v for k, v in given_options(given, Scheduler).items() if k in OPTIONS}
    moves = None if given.moves is None else _moves(given, options)
    resolve(given.policy, options.get("objective", AUTO)).require_understood(options)
    if options.get("plan_ahead") == "promised":
        raise InputError(
            "live keeps no promises from turn to turn; take soft", field="--plan-ahead"
        )
    rules = read_own_rules(options.pop("rules", None))
    measured = given.belief == "measured"
    return Mode(given.command, given.policy, PolicyOptions(**options), rules, measured, moves)


def _moves(given: argparse.Namespace, options: Mapping[str, object]) -> Moving:
    """Read the answer to carry out; refuse options of a policy, which decides nothing then."""
    from morph_opt.live.moving import Moving

    known = asked(Scheduler)
    idle = [known[name].flag for name in options if name != "rules"]
    idle += ["--policy"] if given.policy != MILP else []
    idle += ["--belief"] if given.belief != "truth" else []
    if idle:
        rule = "has no effect with --moves, which carries out an answer as it is"
        raise InputError(rule, field=idle[0])
    return Moving.read(given.moves, given.give_up_s)


def _release(given: argparse.Namespace) -> int:
    from morph_opt.live.execution import release_all
    from morph_opt.live.settings import read_settings

    scheduler = _scheduler(read_settings(given.config))
    done, refused = release_all(scheduler, given.folder, given.older_than)
    print(f"{done} jobs given back to the scheduler, {len(refused)} refused")
    for line in refused:
        print(line, file=sys.stderr)
    return int(bool(refused))
