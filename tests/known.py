"""Commands whose options are tested line by line: the package's, and those of the benchmarks."""

from __future__ import annotations

import importlib

from morph_opt.commands import COMMANDS, Command
from morph_opt.core.commandline.parser import LineParser

BESIDE = (
    Command("instances", "benchmarks.instances.__main__", "rounds as MILP files"),
    Command("readme", "benchmarks.readme.__main__", "tables and pictures of the README"),
    Command("acme", "benchmarks.acme.command", "figures of the Acme study"),
    Command("perf-study", "benchmarks.perf.__main__", "how well the performance model predicts"),
    Command("published", "benchmarks.published.__main__", "published cases, compared"),
    Command("published.figures", "benchmarks.published.figures", "figures, repeated"),
)
KNOWN = (*COMMANDS, *BESIDE)
MAIN = {command.name: command.module for command in KNOWN}


def parser_of(command: str) -> LineParser:
    """The parser of a command of `KNOWN`, by name."""
    made: LineParser = importlib.import_module(MAIN[command]).make_parser()
    return made
