"""Hindsight: the best schedule that a search finds under the engine's own rules, knowing all.

    python -m benchmarks.hindsight [--trace base] [--seeds 0] [--blocks 6] [--out FOLDER]

Traces are those of the comparison, by the same names and in rounds of the same length; plans choose
GPU types as well. Reports can then say bound <= optimum <= hindsight. A plan says when each job
starts, how and where; the search (`benchmarks.hindsight.search`) makes some ten thousand changes a
block, and the best plan is replayed in the strict engine: what is reported is what the engine
measured. A search starts where the one before it ended (``plans``, by number of the job); the same
blocks in one go or two give the same. It is local, and its plans stop no job: an upper bound on the
optimum, no proof.
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
from benchmarks.hindsight.plan import Entry, Work
from benchmarks.hindsight.planned import Planned, due_by_name
from benchmarks.hindsight.search import BLOCK, Found, begin, block
from morph_opt.commandline import LineParser, run_command
from morph_opt.commandline.types import whole
from morph_opt.documents import read_rows, write_atomically
from morph_opt.domain import Cluster, InputError
from morph_opt.metrics.bounds.demands import job_demands
from morph_opt.metrics.bounds.lower import avg_jct_lower_bound
from morph_opt.policies.base import Policy
from morph_opt.policies.registry import PolicyOptions, make_policy
from morph_opt.replay import ReplayConfig, replay
from morph_opt.table import Table
from morph_opt.traces import LoadedTrace
from morph_opt.traces.registry import load_trace

FOLDER = Path("reports/hindsight")
ENTRY = ("job", "start", "way", "nodes")
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
    found = _read(file, work) or begin(work)
    while found.blocks < blocks:
        found = block(work, found)
        _write(file, found)
        print(f"{title} {seed}: block {found.blocks}, planned {found.mean_s:.1f} s", flush=True)
    due = due_by_name(loaded.trace, work, found.entries)
    planned_s = _measured(loaded, cluster, Planned(loaded.truth, due), config)
    auto = make_policy("milp", loaded.truth, PolicyOptions())
    auto_s = _measured(loaded, cluster, auto, config)
    bound_s = avg_jct_lower_bound(job_demands(loaded.trace, cluster, loaded.truth, config)).value_s
    figures = (bound_s, auto_s, planned_s, min(auto_s, planned_s))
    cells = (title, str(seed), str(found.blocks), *(f"{x:.1f}" for x in figures))
    return dict(zip(COLUMNS, cells, strict=True))


def _measured(loaded: LoadedTrace, cluster: Cluster, policy: Policy, config: ReplayConfig) -> float:
    """Average JCT of a strict replay."""
    summary = replay(loaded.trace, cluster, policy, loaded.truth, config).summary
    if summary["completed"] != summary["jobs"]:
        raise InputError("not every job completes", field=loaded.trace.name)
    return float(summary["avg_jct_s"] or 0.0)


def _write(file: Path, found: Found) -> None:
    """The whole state; written anew after every block."""
    file.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(ENTRY)
    writer.writerow(("", found.blocks, repr(found.mean_s), ""))
    for job, entry in enumerate(found.entries):
        writer.writerow((job, entry.start, entry.way, " ".join(map(str, entry.nodes))))
    write_atomically(file, buffer.getvalue())


def _read(file: Path, work: Work) -> Found | None:
    """Where a search ended; None where there is none of as many jobs."""
    if not file.is_file():
        return None
    head, *rows = (row.cells for row in read_rows(file, ENTRY))
    if len(rows) != len(work.ways):
        return None
    entries = tuple(
        Entry(int(row["start"]), int(row["way"]), tuple(map(int, row["nodes"].split())))
        for row in rows
    )
    return Found(entries, float(head["way"]), int(head["start"]))


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

Made by `python -m benchmarks.hindsight`: plans that say when each job starts, in which
configuration and on which nodes, found by ruin and recreate ({BLOCK:,} changes a block) with every
arrival and duration known, and replayed in the strict engine: *best plan* is what the engine
measured. A plan chooses start, configuration, GPU type and nodes of every job; it stops and moves
none. Hindsight is the better of the plan and the online objective `auto`. Traces are those of the
[comparison](../comparison/README.md). The optimum lies between the certified
[bound](../../docs/metrics.md#certified-lower-bounds) and hindsight; more blocks bring hindsight
closer to it."""


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.hindsight", description=__doc__)
    parser.add_argument("--trace", action="append", help="repeat for several (base)")
    parser.add_argument(
        "--seeds", type=whole(0, 10**6), nargs="+", default=[0], help="of twins (0)"
    )
    parser.add_argument("--blocks", type=whole(1, 10**6), default=6, help="in all, per trace (6)")
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
