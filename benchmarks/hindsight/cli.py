"""Hindsight: the best schedule that a search finds under the engine's own rules, knowing all.

    python -m benchmarks.hindsight [--trace base] [--seeds 0] [--blocks 1] [--out FOLDER]

Traces are those of the comparison, by the same names and in rounds of the same length. A plan says
in which order jobs start, in which configuration, on which GPU type, and when they are stopped; the
search (`benchmarks.hindsight.search`) begins with what `auto` did, and the best plan is replayed in
the strict engine: what is reported is what the engine measured. A search starts where the one
before it ended (``plans``, by number of the job); the same blocks in one go or two give the same.
It is local: an upper bound on the optimum, no proof. Reports can then say bound <= optimum <=
hindsight.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison.contenders import FIELDS, Contender, Field, scenario_of
from benchmarks.comparison.records import REFERENCE
from benchmarks.hindsight.plan import Follower, Plan, Segment, Work
from benchmarks.hindsight.planned import Planned, due_by_name, plan_of
from benchmarks.hindsight.search import BLOCK, Found, begin, block
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.documents import read_rows, write_atomically
from morph_opt.core.domain import Cluster, InputError
from morph_opt.core.table import Table
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.metrics.bounds.demands import job_demands
from morph_opt.simulation.metrics.bounds.lower import avg_jct_lower_bound
from morph_opt.simulation.runs.result import ReplayResult

FOLDER = Path("reports/hindsight")
SEGMENT = ("job", "way", "rounds", "blocks", "spots")
COLUMNS = ("trace", "seed", "blocks", "bound_s", "auto_s", "planned_s", "hindsight_s")


def searched(title: str, seed: int, blocks: int, folder: Path) -> dict[str, str]:
    """Continue the search of a trace up to so many blocks; the row of ``search.csv``."""
    field = next((field for field in FIELDS if field.title == title), Field(title))
    scenario = scenario_of(field, seed, Contender(REFERENCE, "milp"))
    loaded = load_trace(field.name, seed=seed, **dict(field.sized))
    cluster, config = scenario.cluster, scenario.engine
    work = Work.of(loaded.trace, cluster, loaded.truth, config)
    plans = folder / "plans"
    file = plans / f"{re.sub('[^a-z0-9]+', '-', title)}-{seed}.csv"
    auto = _replayed(loaded, cluster, make_policy("milp", loaded.truth, PolicyOptions()), config)
    found = _read(file, work) or begin(work, plan_of(loaded.trace, work, config, auto.events))
    while found.blocks < blocks:
        found = block(work, found)
        _write(file, found)
        print(f"{title} {seed}: block {found.blocks}, planned {found.mean_s:.1f} s", flush=True)
    course = Follower(work).follow(found.plan)
    assert course is not None
    due = due_by_name(loaded.trace, work, found.plan, course)
    planned = _replayed(loaded, cluster, Planned(loaded.truth, due), config)
    auto_s, planned_s = (float(r.summary["avg_jct_s"] or 0.0) for r in (auto, planned))
    bound_s = avg_jct_lower_bound(job_demands(loaded.trace, cluster, loaded.truth, config)).value_s
    figures = (bound_s, auto_s, planned_s, min(auto_s, planned_s))
    cells = (title, str(seed), str(found.blocks), *(f"{x:.1f}" for x in figures))
    return dict(zip(COLUMNS, cells, strict=True))


def _replayed(
    loaded: LoadedTrace, cluster: Cluster, policy: Policy, config: ReplayConfig
) -> ReplayResult:
    """A strict replay in which every job completes."""
    done = replay(loaded.trace, cluster, policy, loaded.truth, config)
    if done.summary["completed"] != done.summary["jobs"]:
        raise InputError("not every job completes", field=loaded.trace.name)
    return done


def _write(file: Path, found: Found) -> None:
    """The whole state, segments in the plan's order; written anew after every block."""
    file.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(SEGMENT)
    writer.writerow(("", "", found.blocks, repr(found.mean_s), ""))
    for job, index in found.plan.order:
        segment = found.plan.segments[job][index]
        spots = " ".join(f"{node}:{gpus}" for node, gpus in segment.spots)
        writer.writerow((job, segment.way, segment.rounds, int(segment.blocks), spots))
    write_atomically(file, buffer.getvalue())


def _read(file: Path, work: Work) -> Found | None:
    """Where a search ended; None where there is none of as many jobs.

    Segments of a job stand in the order in which they start.
    """
    if not file.is_file():
        return None
    head, *rows = (row.cells for row in read_rows(file, SEGMENT))
    segments: list[list[Segment]] = [[] for _ in work.ways]
    if len({row["job"] for row in rows}) != len(segments):
        return None
    order = []
    for row in rows:
        mine = segments[int(row["job"])]
        order.append((int(row["job"]), len(mine)))
        pairs = (spot.split(":") for spot in row["spots"].split())
        spots = tuple((int(node), int(gpus)) for node, gpus in pairs)
        mine.append(Segment(int(row["way"]), int(row["rounds"]), row["blocks"] == "1", spots))
    return Found(Plan(order, segments), float(head["blocks"]), int(head["rounds"]))


def page(rows: Sequence[dict[str, str]]) -> str:
    """The report in Markdown."""
    body = []
    for r in rows:
        bound, auto, best = (float(r[k]) for k in ("bound_s", "auto_s", "hindsight_s"))
        body.append(
            (
                f"`{r['trace']}`",
                r["seed"],
                r["blocks"],
                r["bound_s"],
                r["planned_s"],
                r["auto_s"],
                r["hindsight_s"],
                f"{best / bound - 1.0:.1%}",
                f"{auto / best - 1.0:.1%}",
            )
        )
    header = (
        "trace", "seed", "blocks", "certified bound (s)", "best plan (s)", "`auto` (s)",
        "hindsight (s)", "hindsight above bound", "`auto` above hindsight",
    )  # fmt: skip
    return "\n".join([_HEAD, "", Table(header, body, align="lrrrrrrrr").to_markdown(), ""])


_HEAD = f"""# Best schedules found with hindsight

Made by `python -m benchmarks.hindsight`: plans that say in which order jobs start, in which
configuration and on which GPU type, and when they are stopped, found by simulated annealing
({BLOCK:,} changes a block; it begins with what `auto` did) with every arrival and duration known,
and replayed in the strict engine: *best plan* is what the engine measured. Hindsight is the better
of the plan and the online objective `auto`. Traces are those of the
[comparison](../comparison/README.md). The optimum lies between the certified
[bound](../../docs/metrics.md#certified-lower-bounds) and hindsight; more blocks bring hindsight
closer to it. The plan of `tiresias-480` began with what `auto` did before wide gangs got their
value ([0055](../../docs/decisions/0055-wide-gangs.md)); its `auto` is from after that."""


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.hindsight", description=__doc__)
    parser.add_argument("--trace", action="append", help="repeat for several (base)")
    parser.add_argument(
        "--seeds", type=whole(0, 10**6), nargs="+", default=[0], help="of twins (0)"
    )
    parser.add_argument("--blocks", type=whole(1, 10**6), default=1, help="in all, per trace (1)")
    parser.add_argument("--out", type=Path, default=FOLDER)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and write the report."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    file = options.out / "search.csv"
    for name in options.trace or ["base"]:
        for seed in options.seeds:
            row = searched(name, seed, options.blocks, options.out)
            # Read now: another call may have ended meanwhile.
            known = [dict(r.cells) for r in read_rows(file, COLUMNS)] if file.is_file() else []
            rows = {(r["trace"], r["seed"]): r for r in [*known, row]}
            buffer = io.StringIO()
            writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows.values())
            write_atomically(file, buffer.getvalue())
            write_atomically(options.out / "README.md", page(list(rows.values())))
    return 0
