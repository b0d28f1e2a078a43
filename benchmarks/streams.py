"""Streams of small jobs with a few wide ones, and how long the wide ones wait.

    python -m benchmarks.streams [CASE...] [--seeds 0,1,2] [--worlds 'auto;easy'] [--out FILE]

A stream has three days of Poisson arrivals on 64 GPUs. ``one95`` has one 64-GPU job of two hours
among jobs of 1 to 8 GPUs, load 0.98 with it; ``st95-5`` has load 0.95, and 5 % of its jobs ask for
32, 48 or 64 GPUs. Each is replayed in every world, one after the other; finished runs are read
back. The table has means over seeds, and the longest wait of a 64-GPU job of any seed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.domain.units import HOUR_S
from morph_opt.core.table import Table
from morph_opt.simulation.runs.read import read_run

GPUS, LENGTH_S = 64, 259_200.0
SIZES, SHARES = (1, 2, 4, 8), (0.4, 0.2, 0.2, 0.2)
WIDE = (32, 48, 64)
MEDIAN_S, SPREAD = 3_500.0, 0.8
"""Lognormal run times: median, and standard deviation of the logarithm."""
LEAST_S, MOST_S = 60.0, 86_400.0
BIG = ("big", 3_600, 64, 7_200)
CASES = ("one95", "st80-1", "st95-5")
WORLDS = {
    "saved-time": ("--objective", "saved-time"),
    "auto": (),
    "easy": ("--policy", "easy", "--durations", "limits:exact"),
    "saved-time, no stops": ("--objective", "saved-time", "--rules", "stays.toml"),
    "auto, no stops": ("--rules", "stays.toml"),
    "soft plans": ("--rules", "stays.toml", "--plan-ahead", "soft"),
    "promised starts": ("--rules", "stays.toml", "--plan-ahead", "promised"),
    "saved-time, no stops, limits": (
        *("--objective", "saved-time", "--rules", "stays.toml", "--durations", "limits:modal"),
    ),
    "auto, no stops, limits": ("--rules", "stays.toml", "--durations", "limits:modal"),
    "easy, limits": ("--policy", "easy", "--durations", "limits:modal"),
}
"""Options of the replays by name; ``saved-time`` is ``auto`` without due jobs."""
STAYS = '[[non_preemptible]]\njobs = ["*"]\n'

Row = tuple[str, int, int, int]
"""Name, submission in seconds, GPUs and run time in seconds."""


def stream(case: str, seed: int) -> list[Row]:
    """Return the jobs of a stream in the order of their submission.

    Raises
    ------
    InputError
        If the case is neither ``one95`` nor ``stLOAD-PERCENT``.
    """
    form = re.fullmatch(r"st(\d+)-(\d+)", case)
    if form is None and case != "one95":
        raise InputError(f"must be one95 or stLOAD-PERCENT, got {case!r}", field="case")
    load, wide = (0.95, 0.0) if form is None else (int(form[1]) / 100, int(form[2]) / 100)
    draw = np.random.default_rng((seed, round(1_000 * load), round(1_000 * wide)))
    sizes = np.asarray([*SIZES, *WIDE])
    shares = np.asarray([*((1.0 - wide) * np.asarray(SHARES)), *[wide / len(WIDE)] * len(WIDE)])
    mean_gpu_s = float(sizes @ shares) * MEDIAN_S * np.exp(SPREAD**2 / 2)
    count = round(load * GPUS * LENGTH_S / mean_gpu_s)
    # Given their number, Poisson arrivals are uniform; the work is scaled to the load.
    submit_s = np.sort(draw.uniform(0.0, LENGTH_S, count))
    gpus = draw.choice(sizes, count, p=shares)
    run_s = MEDIAN_S * np.exp(SPREAD * draw.standard_normal(count))
    run_s = np.clip(run_s * (load * GPUS * LENGTH_S / float(gpus @ run_s)), LEAST_S, MOST_S)
    rows = [(f"s{i}", int(submit_s[i]), int(gpus[i]), int(np.ceil(run_s[i]))) for i in range(count)]
    return sorted([*rows, BIG], key=lambda row: row[1]) if form is None else rows


def text_of(rows: Sequence[Row]) -> str:
    """Return the rows as a file of the format ``table``."""
    lines = [",".join(map(str, row)) for row in rows]
    return "\n".join(("job,submit,gpus,duration", *lines)) + "\n"


@dataclass(frozen=True)
class Found:
    """Figures of one replay: average JCT and longest wait of a 64-GPU job in seconds, use."""

    jct_s: float
    gang_s: float
    used: float


def replayed(case: str, seed: int, world: str, runs: Path) -> Found:
    """Replay a stream in a world, unless its run folder is there, and return its figures."""
    name = re.sub("[, ]+", "-", world)
    out, file = runs / f"{case}-{seed}-{name}", runs / f"{case}-{seed}.csv"
    if not (out / "summary.json").exists():
        write_atomically(file, text_of(stream(case, seed)))
        write_atomically(runs / "stays.toml", STAYS)
        options = [str(runs / one) if one == "stays.toml" else one for one in WORLDS[world]]
        command = ("--trace", f"table:{file}", *options, "--quiet", "--out", str(out))
        subprocess.run(
            (sys.executable, "-m", "morph_opt.replay", *command), check=True, capture_output=True
        )
    run = read_run(out)
    waits = [job.queued_s for job in run.jobs if job.gpus == GPUS and job.queued_s is not None]
    return Found(run.summary.avg_jct_s, max(waits, default=0.0), run.summary.gpu_utilization)


def table(cases: Sequence[str], seeds: Sequence[int], worlds: Sequence[str], runs: Path) -> Table:
    """Return a row per case and world."""
    rows = []
    for case in cases:
        for world in worlds:
            found = [replayed(case, seed, world, runs) for seed in seeds]
            jct_s = float(np.mean([one.jct_s for one in found]))
            used = float(np.mean([one.used for one in found]))
            longest = max(one.gang_s for one in found) / HOUR_S
            rows.append((case, world, jct_s, longest, used))
    return Table(
        ("stream", "replay", "average JCT, s", "64 GPUs wait, h", "GPUs used"),
        rows,
        "llrrr",
        {"average JCT, s": ",.0f", "64 GPUs wait, h": ".1f", "GPUs used": ".3f"},
    )


def make_parser() -> LineParser:
    """Return the parser of the command."""
    parser = LineParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("case", nargs="*", default=list(CASES), metavar="CASE")
    parser.add_argument("--seeds", default="0,1,2", metavar="N,...")
    parser.add_argument("--worlds", default=";".join(WORLDS), metavar="NAME;...")
    parser.add_argument("--runs", type=Path, default=Path("runs/streams"), metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="FILE")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Replay the streams, print the table and return the exit status."""
    return run_command(make_parser(), _run, argv)


def _run(arguments: argparse.Namespace) -> int:
    worlds = arguments.worlds.split(";")
    unknown = [world for world in worlds if world not in WORLDS]
    if unknown:
        raise InputError(f"{unknown[0]!r} is none of {', '.join(WORLDS)}", field="--worlds")
    arguments.runs.mkdir(parents=True, exist_ok=True)
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    text = table(arguments.case, seeds, worlds, arguments.runs).to_markdown() + "\n"
    sys.stdout.write(text)
    if arguments.out is not None:
        write_atomically(arguments.out, text)
    return 0


if __name__ == "__main__":
    as_process(main)
