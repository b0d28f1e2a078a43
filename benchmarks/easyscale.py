"""Workers on any GPUs: the round MILP, EasyScale's greedy and gangs, in one engine.

    python -m benchmarks.easyscale [--original FOLDER] [--out reports/easyscale]

Replays of ``easyscale-twin`` on 32 V100, 16 P100 and 16 T4 in nodes of 8, rounds of 60 s, every
start and change 20 s; with a folder that has your copy of EasyScale's trace and times, of that as
well, with the published figures beside it. *homo*: every job stays on its type; *heter*: those
whose kernels are equal on all types may mix them. Simulated time, and rounds have so many seconds
that their gap ends them: nothing depends on a clock.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import ExecutionPlan, Job, PlanFamily, RoundState, Trace
from morph_opt.core.table import Table
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.traces.easyscale import HOME
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.policies.rigid import Fifo
from morph_opt.simulation.engine.config import ReplayConfig

CHANGE_S, GAP, WASTE, LIMIT_S = 20.0, 0.01, 0.05, 600.0

PUBLISHED = (
    ("YARN-CS", 8904.9685, 16560.0),
    ("homo", 1070.5008, 6720.0),
    ("heter", 676.7497, 6000.0),
)
"""Average JCT and makespan, seconds (EasyScale, SC'23, Figures 14 and 15)."""

ONE_AT_A_TIME = "easyscale:yarn-cs, one at a time"
POLICIES = (
    (ONE_AT_A_TIME, "heter"),
    ("easyscale:yarn-cs", "heter"),
    ("fifo:skip", "heter"),
    ("easyscale:homo", "heter"),
    ("easyscale:heter", "heter"),
    ("milp jct", "homo"),
    ("milp jct", "heter"),
    ("milp throughput", "homo"),
    ("milp throughput", "heter"),
)
"""Who decides, and whether jobs that may mix types are let."""

HEADER = (
    "decided by",
    "jobs",
    "average JCT (s)",
    "makespan (s)",
    "restarts per job",
    "gangs first come first served / this",
)


class OneAtATime(Fifo):
    """As published: the first job has its gang, and no other job anything."""

    name = ONE_AT_A_TIME

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        return super().decide(replace(state, jobs=state.jobs[:1]))


def of_one_type(trace: Trace) -> Trace:
    """The jobs, none of which may mix types."""

    def job(one: Job) -> Job:
        plan = one.requested_plan
        if plan.family is not PlanFamily.EST or plan.determinism != "d2":
            return one
        return replace(one, requested_plan=ExecutionPlan.ests(plan.workers, "d1", plan.gpu_type))

    return Trace(trace.name, tuple(job(one) for one in trace.jobs), trace.description)


def rows_of(loaded: LoadedTrace) -> Iterator[tuple[str, str, float, float, float]]:
    """One replay after the other."""
    for label, jobs in POLICIES:
        name, _, objective = label.partition(" ")
        options = PolicyOptions()
        if name == "milp":
            waste = WASTE if jobs == "heter" else None
            options = PolicyOptions(
                objective=objective, gap=GAP, time_limit_s=LIMIT_S, waste_filter=waste
            )
        policy: Policy = (
            OneAtATime(loaded.truth)
            if label == ONE_AT_A_TIME
            else make_policy(name, loaded.truth, options)
        )
        trace = loaded.trace if jobs == "heter" else of_one_type(loaded.trace)
        config = ReplayConfig(restart_s=CHANGE_S)
        found = replay(trace, load_cluster(HOME), policy, loaded.truth, config).summary
        figures = (found[key] for key in ("avg_jct_s", "makespan_s", "restarts_per_job"))
        row = (label, jobs, *(float(str(figure)) for figure in figures))
        print(*row, flush=True)
        yield row  # type: ignore[misc]


def section(title: str, loaded: LoadedTrace) -> list[str]:
    """A table under a heading."""
    rows = list(rows_of(loaded))
    fair = next(row[2] for row in rows if row[0] == "easyscale:yarn-cs")
    body = [
        (f"`{policy}`", jobs, jct, makespan, restarts, fair / jct)
        for policy, jobs, jct, makespan, restarts in rows
    ]
    formats = dict.fromkeys(HEADER[2:4], ",.0f") | dict.fromkeys(HEADER[4:], ".2f")
    return [f"## {title}", "", Table(HEADER, body, "llr", formats).to_markdown(), ""]


def page(folder: str | None) -> str:
    """The page."""
    lines = [
        "# Workers on any GPUs",
        "",
        "Made by `python -m benchmarks.easyscale`: 32 V100, 16 P100, 16 T4 in nodes of 8, rounds",
        f"of 60 s, every start and change {CHANGE_S:g} s, `--gap {GAP:g}`; the MILP's heter rounds",
        f"with `--waste-filter {WASTE:g}`. Belief = truth. The greedy is chaotic: ties move it",
        "some percent, so no single run of it decides anything.",
        "",
        *section("A generated workload: `easyscale-twin`", load_trace("easyscale-twin")),
    ]
    if folder is not None:
        table = Table(
            ("published", "average JCT (s)", "makespan (s)"),
            PUBLISHED,
            "lr",
            {"average JCT (s)": ",.0f", "makespan (s)": ",.0f"},
        )
        lines += section(
            "The published trace, with the published times of mini-batches",
            load_trace(f"easyscale:{folder}"),
        )
        lines += [
            table.to_markdown(),
            "",
            "The published figures cannot be repeated: the times that they were made with are",
            "missing upstream, and changes after the first start cost nothing there.",
            "One job at a time is as published; ratios are against gangs first come first served.",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.easyscale", description=__doc__)
    parser.add_argument("--original", metavar="FOLDER", help="your copy of EasyScale's files")
    parser.add_argument("--out", metavar="DIR", default="reports/easyscale")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything and write the page."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    text = page(options.original)
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "README.md", text)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
