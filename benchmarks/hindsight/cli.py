"""Hindsight: the best schedule that a search finds under the engine's own rules, knowing all.

    python -m benchmarks.hindsight [--trace base] [--seeds 0] [--blocks 6] [--out FOLDER]

Reports can then say bound <= optimum <= hindsight. A plan says when each job starts, how and
where; the search (`benchmarks.hindsight.search`) makes some ten thousand changes a block, and the
best plan is replayed in the strict engine: what is reported is what the engine measured. A search
starts where the one before it ended (``plans``, by number of the job); the same blocks in one go
or two give the same. It is local, and its plans stop no job: an upper bound on the optimum, no
proof.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from pathlib import Path

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
from morph_opt.replay.scenario import Scenario
from morph_opt.table import Table
from morph_opt.traces import LoadedTrace
from morph_opt.traces.registry import load_trace

FOLDER = Path("reports/hindsight")
ENTRY = ("job", "start", "way", "nodes")
FIELDS = ("trace", "seed", "blocks", "bound_s", "lookahead_s", "planned_s", "hindsight_s")


def searched(name: str, seed: int, blocks: int, folder: Path) -> dict[str, str]:
    """Continue the search of a trace up to so many blocks; the row of ``search.csv``."""
    loaded, cluster = load_trace(name, seed=seed), Scenario(name, seed=seed).cluster
    config = ReplayConfig()
    work = Work.of(loaded.trace, cluster, loaded.truth, config)
    plans = folder / "plans"
    file = plans / f"{name.replace('/', '-')}-{seed}.csv"
    found = _read(file, work) or begin(work)
    while found.blocks < blocks:
        found = block(work, found)
        _write(file, found)
        print(f"{name} {seed}: block {found.blocks}, planned {found.mean_s:.1f} s", flush=True)
    due = due_by_name(loaded.trace, work, found.entries)
    planned_s = _measured(loaded, cluster, Planned(loaded.truth, due), config)
    lookahead = make_policy("milp", loaded.truth, PolicyOptions(objective="lookahead"))
    lookahead_s = _measured(loaded, cluster, lookahead, config)
    bound_s = avg_jct_lower_bound(job_demands(loaded.trace, cluster, loaded.truth, config)).value_s
    figures = (bound_s, lookahead_s, planned_s, min(lookahead_s, planned_s))
    cells = (name, str(seed), str(found.blocks), *(f"{x:.1f}" for x in figures))
    return dict(zip(FIELDS, cells, strict=True))


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
        bound, lookahead, best = (float(r[k]) for k in ("bound_s", "lookahead_s", "hindsight_s"))
        body.append((
            f"`{r['trace']}`", r["seed"], r["blocks"], r["bound_s"], r["planned_s"],
            r["lookahead_s"], r["hindsight_s"], f"{best / bound - 1.0:.1%}",
            f"{lookahead / best - 1.0:.1%}",
        ))  # fmt: skip
    header = (
        "trace", "seed", "blocks", "certified bound (s)", "best plan (s)", "`lookahead` (s)",
        "hindsight (s)", "hindsight above bound", "`lookahead` above hindsight",
    )  # fmt: skip
    return "\n".join([_HEAD, "", Table(header, body, align="lrrrrrrrr").to_markdown(), ""])


_HEAD = f"""# Best schedules found with hindsight

Made by `python -m benchmarks.hindsight`: plans that say when each job starts, in which
configuration and on which nodes, found by ruin and recreate ({BLOCK:,} changes a block) with every
arrival and duration known, and replayed in the strict engine: *best plan* is what the engine
measured. Plans stop and move no job. Hindsight is the better of the plan and the online objective
`lookahead`. The optimum lies between the certified
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
            known = [dict(r.cells) for r in read_rows(file, FIELDS)] if file.is_file() else []
            rows = {(r["trace"], r["seed"]): r for r in [*known, row]}
            buffer = io.StringIO()
            writer = csv.DictWriter(buffer, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows.values())
            write_atomically(file, buffer.getvalue())
            write_atomically(options.out / "README.md", page(list(rows.values())))
    return 0
