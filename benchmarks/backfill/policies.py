"""The MILP against the schedulers that people run, all told time limits and nothing else.

    python -m benchmarks.backfill.policies [FOLDER...] [--seeds 0,1,2,3,4] [--jobs 2]

Two twins of production clusters, a member for every seed, and any number of recordings of a Slurm
(a folder each, with ``sacct.txt``, ``slurm.conf`` and ``assoc.txt``), in as many shaken replays as
there are seeds. Rounds begin at events. A call goes on where the last one ended.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path

import numpy as np

from benchmarks.comparison.contenders import ask_seeds
from benchmarks.comparison.records import interval
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.table import Table
from morph_opt.hindcast.recorded import read_waits
from morph_opt.hindcast.shaken import prepared_site, shaken_replays
from morph_opt.inputs.clusters import load_cluster
from morph_opt.replay.prepare import prepare
from morph_opt.replay.run import run_prepared
from morph_opt.replay.scenario import Scenario, Workload
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.runs.jobs import JobRow

FOLDER = Path("reports/backfill")
RESULTS, PAGE = "policies.csv", "README.md"
RECORDED_ON = "8x8:A800-80GB"
"""Cluster of the recordings."""
REFERENCE = "slurm"


@dataclass(frozen=True, slots=True)
class Contender:
    """What is compared.

    Parameters
    ----------
    label
        In the tables.
    policy
        As the replay takes it.
    keeps
        Whether a running job is never moved or stopped: by nature, or by the operator's rule.
    learns
        Whether run times are learnt from completed jobs, with limits as upper bounds.
    """

    label: str
    policy: str
    keeps: bool = True
    learns: bool = False


CONTENDERS = (
    Contender(REFERENCE, "slurm"),
    Contender("easy", "easy"),
    Contender("conservative", "conservative"),
    Contender("MILP, non-preemptive", "milp"),
    Contender("MILP, non-preemptive, learnt", "milp", learns=True),
    Contender("MILP", "milp", keeps=False),
    Contender("MILP, learnt", "milp", keeps=False, learns=True),
)

TWINS = {
    "acme-bursts": ("resampled/x2/as-is/acme-twin", 1.0),
    "philly-bursts": ("resampled/x3/as-is/philly-twin", 3.0),
}
"""Twins by name: trace and days, on 64 GPUs, busier than the cluster was; as in the comparison."""

SIZES: dict[str, Callable[[int], bool]] = {
    "all": lambda _: True,
    "1 GPU": lambda gpus: gpus == 1,
    "2 to 7": lambda gpus: 2 <= gpus <= 7,
    "8": lambda gpus: gpus == 8,
    "over 8": lambda gpus: gpus > 8,
}
"""Classes of jobs by the GPUs that they ask for."""


HEAD = """# The MILP against schedulers that people run, all told time limits

Made by `python -m benchmarks.backfill.policies`; rows in `policies.csv`. Every contender knows
time limits and never a run time; *learnt* are guesses from completed jobs with limits as upper
bounds (`--durations limits:...:learnt`). Rounds begin at events. The MILP has its default
objective `auto`, and stops and moves jobs at the engine's restart costs, or never under the
operator's rule `non_preemptible` on all jobs. Limits of twins are drawn by the law `modal`, whose
weights are assumed. Recordings are of a running Slurm 22.05 on 64 GPUs
([how they are reproduced](../../docs/batch-schedulers.md)). `slurm` follows the slurm.conf of
each recording; on twins Slurm's defaults.

A cell is the mean completion time over that of `slurm` on the same jobs: geometric mean over seeds
(of twins members, of recordings shaken replays) with its 95 % interval; below 1 is better than
`slurm`. **Bold** is a loss: the interval is above 1. A longer longest wait is a loss as well.
Contenders that are missing were not run. The rows are from before rigid jobs got a value that grows
with their GPUs ([0055](../../docs/decisions/0055-wide-gangs.md)), which changes those of the MILP
that is told limits.
"""
"""Text of the page before its tables."""


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one replay and class of jobs; times in seconds, waits without GPUs."""

    place: str
    seed: int
    contender: str
    size: str
    jobs: int
    avg_jct_s: float
    avg_queued_s: float
    p95_queued_s: float
    max_queued_s: float
    restarts_per_job: float


def rows_of(place: str, seed: int, contender: str, jobs: Sequence[JobRow]) -> Iterator[Row]:
    """Yield the figures of a replay, by class of jobs."""
    for size, has in SIZES.items():
        mine = [job for job in jobs if has(job.gpus)]
        if mine:
            queued = np.array([job.queued_s for job in mine])
            yield Row(
                place,
                seed,
                contender,
                size,
                len(mine),
                float(np.mean([job.jct_s for job in mine])),
                float(queued.mean()),
                float(np.percentile(queued, 95.0)),
                float(queued.max()),
                float(np.mean([job.restarts for job in mine])),
            )


def scheduler_of(
    contender: Contender, folder: Path, limits: str, policy: str | None = None
) -> Scheduler:
    """Return who decides.

    Parameters
    ----------
    contender
        The contender.
    folder
        Where its rules are written.
    limits
        What it is told, as ``--durations`` has it.
    policy
        The policy, where a site states it; None for the contender's.
    """
    if contender.policy != "milp":  # it plans by limits; a law gives them to jobs without
        named = {"durations": limits} if ":" in limits else {}
        return Scheduler(policy=policy or contender.policy, **named)
    told = f"{limits}:learnt" if contender.learns else limits
    rules = None
    if contender.keeps:
        rules = folder / "rules.toml"
        rules.write_text('[[non_preemptible]]\njobs = ["*"]\n', encoding="utf-8")
    return Scheduler(durations=told, rules=None if rules is None else str(rules))


def of_twin(place: str, seed: int, contender: Contender) -> list[Row]:
    """Replay a member of a twin, whose limits are drawn by the law ``modal``."""
    trace, days = TWINS[place]
    with tempfile.TemporaryDirectory() as folder:
        scheduler = scheduler_of(contender, Path(folder), "limits:modal")
        scenario = Scenario(
            workload=Workload(trace, seed, True, gpus=64, days=days),
            scheduler=scheduler,
            engine=ReplayConfig(rounds="events"),
        )
        return list(rows_of(place, seed, contender.label, run_prepared(prepare(scenario)).jobs))


def of_recording(folder: Path, seeds: Sequence[int], contender: Contender) -> list[Row]:
    """Replay a recording, shaken by each seed."""
    site = f"slurm:{folder / 'slurm.conf'},{folder / 'assoc.txt'}"
    recorded = read_waits(f"sacct:{folder / 'sacct.txt'}", {})
    policy = site if contender.policy == REFERENCE else None
    with tempfile.TemporaryDirectory() as own:
        scheduler = scheduler_of(contender, Path(own), "limits", policy)
        prepared = prepared_site(recorded.loaded, load_cluster(RECORDED_ON), scheduler)
        return [
            row
            for seed in seeds
            for rows in shaken_replays(prepared, 1, seed).rows
            for row in rows_of(folder.name, seed, contender.label, rows)
        ]


def write_page(rows: Sequence[Row], out: Path) -> None:
    """Write rows and page; losses are named."""
    order = [contender.label for contender in CONTENDERS]
    by_place = {name: list(mine) for name, mine in groupby(rows, lambda row: row.place)}
    lines = [HEAD]
    lost: list[str] = []
    for place, mine in by_place.items():
        sizes = [size for size in SIZES if any(row.size == size for row in mine)]
        reference = {(r.seed, r.size): r.avg_jct_s for r in mine if r.contender == REFERENCE}
        seeds = sorted({row.seed for row in mine})
        shown, longest_s = [], math.inf
        for label in (name for name in order if any(row.contender == name for row in mine)):
            own = [row for row in mine if row.contender == label]
            cells = []
            for size in sizes:
                ratios = [
                    row.avg_jct_s / reference[row.seed, size]
                    for row in own
                    if row.size == size and (row.seed, size) in reference
                ]
                cells.append(_cell(ratios) if label != REFERENCE else "1")
                if cells[-1].startswith("**"):
                    lost.append(f"{label} on `{place}`, {size}: {cells[-1].strip('*')}")
            whole_ = [row for row in own if row.size == "all"]
            figures = (
                f"{np.mean([getattr(row, name) for row in whole_]):,.0f}"
                for name in ("avg_jct_s", "avg_queued_s", "p95_queued_s", "max_queued_s")
            )
            longest = float(np.mean([row.max_queued_s for row in whole_]))
            if label == REFERENCE:
                longest_s = longest
            elif longest > longest_s:
                times = f"{longest / longest_s:.1f} times that of `slurm`"
                lost.append(f"{label} on `{place}`, longest wait: {longest:,.0f} s, {times}")
            restarts = f"{np.mean([row.restarts_per_job for row in whole_]):.2f}"
            shown.append((label, *cells, *figures, restarts))
        count = {size: [r.jobs for r in mine if r.size == size] for size in sizes}
        header = (
            "policy",
            *(f"{size} ({np.mean(count[size]):.0f} jobs)" for size in sizes),
            "mean JCT s",
            "mean wait s",
            "p95 wait",
            "longest wait",
            "restarts per job",
        )
        table = Table(header, shown, "l" + "r" * (len(header) - 1))
        lines += [f"## `{place}`, seeds {', '.join(map(str, seeds))}", "", table.to_markdown(), ""]
    lines += ["## Losses", ""]
    lines += [f"- {line}" for line in lost] or ["None: no interval is above 1, and no wait longer."]
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / PAGE, "\n".join(lines) + "\n")


def _cell(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    middle, low, high = interval(ratios)
    text = f"{middle:.2f} ({low:.2f} to {high:.2f})" if len(ratios) > 1 else f"{middle:.2f}"
    return f"**{text}**" if low > 1.0 else text


def read(path: Path) -> list[Row]:
    """Read the rows of earlier calls."""
    if not path.is_file():
        return []
    kinds = {"int": int, "float": float, "str": str}
    names = {field.name: kinds[str(field.type)] for field in fields(Row)}
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Row(**{name: kind(cells[name]) for name, kind in names.items()})
            for cells in csv.DictReader(file)
        ]


def write(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Row)])
    for row in rows:
        writer.writerow(f"{one:.6g}" if isinstance(one, float) else one for one in astuple(row))
    write_atomically(path, text.getvalue())


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.backfill.policies", description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="recordings")
    ask_seeds(parser)
    parser.add_argument(
        "--twins",
        type=lambda text: text.split(",") if text else [],
        default=list(TWINS),
        metavar="NAME,...",
        help=f"({','.join(TWINS)})",
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a contender; may be repeated"
    )
    parser.add_argument(
        "--jobs", type=whole(1, 64), default=1, metavar="N", help="replays at a time (1)"
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help=f"({FOLDER})")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    known = {contender.label: contender for contender in CONTENDERS}
    for field, asked, names in (
        ("--twins", options.twins, TWINS),
        ("--only", options.only, known),
    ):
        for name in asked:
            if name not in names:
                raise InputError(f"unknown: {name!r}; known are {'; '.join(names)}", field=field)
    for folder in options.folders:
        if not (folder / "sacct.txt").is_file():
            raise InputError("has no sacct.txt", file=str(folder))
    chosen = [known[name] for name in options.only or known]
    path = options.out / RESULTS
    done = {(row.place, row.seed, row.contender) for row in read(path)}
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = [
            pool.submit(of_twin, place, seed, contender)
            for seed in options.seeds
            for place in options.twins
            for contender in chosen
            if (place, seed, contender.label) not in done
        ]
        for folder in options.folders:
            for contender in chosen:
                left = [s for s in options.seeds if (folder.name, s, contender.label) not in done]
                if left:
                    waiting.append(pool.submit(of_recording, folder, left, contender))
        for one in waiting:
            found = one.result()
            places = [*TWINS, *sorted({row.place for row in read(path)} - set(TWINS))]
            places += [row.place for row in found if row.place not in places]
            order = {contender.label: at for at, contender in enumerate(CONTENDERS)}
            sizes = list(SIZES)
            rows = sorted(
                [*read(path), *found],
                key=lambda row: (
                    places.index(row.place),
                    row.seed,
                    order.get(row.contender, len(order)),
                    sizes.index(row.size),
                ),
            )
            write(rows, path)
            whole_ = found[0]
            print(
                f"{whole_.place} {whole_.seed} {whole_.contender}: {whole_.avg_jct_s:,.0f} s",
                file=sys.stderr,
                flush=True,
            )
    write_page(read(path), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
