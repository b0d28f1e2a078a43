"""The commands of the package, a line each."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from morph_opt.commandline.parser import LineParser


@dataclass(frozen=True, slots=True)
class Command:
    """What ``python -m morph_opt.NAME`` does.

    Parameters
    ----------
    name
        Behind ``morph_opt.``.
    module
        Has `make_parser` and `main`; named, not imported, as commands are above this room.
    summary
        One line.
    """

    name: str
    module: str
    summary: str


COMMANDS = (
    Command("replay", "morph_opt.replay.cli", "replay a trace with one decision per round"),
    Command("round", "morph_opt.round.cli", "decide one round from a snapshot"),
    Command("report", "morph_opt.report.cli", "one HTML file on finished runs"),
    Command("report.picture", "morph_opt.report.picture", "timelines and distributions as SVG"),
    Command("compare", "morph_opt.compare.cli", "two or more runs side by side"),
    Command("export", "morph_opt.export.cli", "a run for Perfetto, for Batsim's tools, as tables"),
    Command("sweep", "morph_opt.sweep.cli", "many replays: a cell each, cached, on many machines"),
    Command("plan", "morph_opt.plan.cli", "capacity planning: how many nodes, which fleet"),
    Command("explain", "morph_opt.replay.why", "why a job of a finished run got what it got"),
    Command("policies", "morph_opt.policies.__main__", "list policies and objectives"),
    Command("solvers", "morph_opt.solvers.__main__", "list solvers and what they can do"),
    Command("instances", "morph_opt.instances.__main__", "published rounds as MILP files"),
    Command("traces", "morph_opt.traces.__main__", "what is in a log and what is wrong with it"),
    Command("audit", "morph_opt.audit.__main__", "a log against the optimum, by the hour"),
    Command("data", "morph_opt.data.__main__", "public data sets: list, fetch, find"),
    Command("topology", "morph_opt.topology.__main__", "show or draw the network of a cluster"),
    Command("perf", "morph_opt.perf.cli", "predict, plan and fit the speed of execution plans"),
    Command(
        "perf.study.memory_report", "morph_opt.perf.study.memory_report", "memory that plans need"
    ),
    Command("shares", "morph_opt.shares.__main__", "target shares of an instance file"),
    Command("validation", "morph_opt.validation.__main__", "files of published cases, compared"),
    Command(
        "validation.published", "morph_opt.validation.published", "published figures, repeated"
    ),
    Command("analysis", "morph_opt.analysis.__main__", "tables and pictures of the README"),
)
"""Every command, in the order in which a newcomer meets them."""


def parser_of(command: str) -> LineParser:
    """The parser of a command of `COMMANDS`, by name."""
    found = next(known for known in COMMANDS if known.name == command)
    made: LineParser = importlib.import_module(found.module).make_parser()
    return made
