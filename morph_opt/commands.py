"""Commands of the package, a line each."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from morph_opt.core.commandline.parser import LineParser


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, its purpose and its parser.

    Parameters
    ----------
    name
        Last part of ``python -m morph_opt.NAME``.
    module
        Module with `make_parser` and `main`; a name, so that only the command asked for is loaded.
    summary
        One line.
    """

    name: str
    module: str
    summary: str


GROUPS: dict[str, tuple[Command, ...]] = {
    "decide, replay, plan": (
        Command("replay", "morph_opt.replay.cli", "replay a trace with one decision per round"),
        Command("round", "morph_opt.round.cli", "decide one round from a snapshot"),
        Command("moves", "morph_opt.moves.cli", "cheapest moves to start a job or free nodes"),
        Command("sweep", "morph_opt.sweep.cli", "many replays: cached, on many machines"),
        Command("live", "morph_opt.live.cli", "with a real Slurm: observe, advise, act"),
        Command("plan", "morph_opt.plan.cli", "capacity: how many nodes, which fleet"),
    ),
    "look at runs": (
        Command("report", "morph_opt.report.cli", "one HTML file on finished runs"),
        Command("report.picture", "morph_opt.report.picture", "timelines, distributions as SVG"),
        Command("compare", "morph_opt.compare.cli", "two or more runs side by side"),
        Command("explain", "morph_opt.explain.cli", "why a job of a run waited or got its GPUs"),
        Command("export", "morph_opt.export.cli", "for Perfetto, for Batsim's tools, as tables"),
    ),
    "logs, clusters, speeds, policies, solvers": (
        Command("traces", "morph_opt.inputs.traces.cli", "what is in a log, and what is wrong"),
        Command("audit", "morph_opt.audit.__main__", "a log against the optimum, by the hour"),
        Command("hindcast", "morph_opt.hindcast.__main__", "does a replay reproduce a log's waits"),
        Command("data", "morph_opt.inputs.data.cli", "public data sets: list, fetch, find"),
        Command("topology", "morph_opt.inputs.clusters.cli", "the network of a cluster, drawn"),
        Command("perf", "morph_opt.inputs.perf.cli", "predict, plan and fit speeds of plans"),
        Command("policies", "morph_opt.scheduling.policies.cli", "policies and objectives"),
        Command("solvers", "morph_opt.scheduling.solvers.cli", "solvers and what they can do"),
        Command("shares", "morph_opt.scheduling.shares.cli", "target shares of an instance file"),
    ),
}
"""Commands by purpose, in the order in which a newcomer meets them."""

COMMANDS = tuple(command for group in GROUPS.values() for command in group)


def parser_of(command: str) -> LineParser:
    """Return the parser of a command by its name."""
    found = next(known for known in COMMANDS if known.name == command)
    made: LineParser = importlib.import_module(found.module).make_parser()
    return made
