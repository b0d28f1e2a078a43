"""Measure what no other report holds: about a minute of CPU time, from the project alone.

Tiresias' published trace is the exception: its numbers are kept as recorded where it is not here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import morph_opt as mo
from benchmarks.perf.micro import PAIR, two_jobs
from benchmarks.published.figures import run_tiresias
from benchmarks.published.simulators.gandiva_search import run_search
from morph_opt.core.documents import read_rows, write_atomically
from morph_opt.inputs.data import find
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.inputs.traces.tiresias import read_trace_rows

HEADER = ("seed", "of", "figure", "value")


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of a seed.

    Parameters
    ----------
    seed, of
        Figure, table or claim; configuration, such as a policy.
    figure
        Name of the number, with its unit.
    value
        The number.
    """

    seed: str
    of: str
    figure: str
    value: float


def measure() -> Iterator[Measured]:
    """Yield every number that can be made on this machine."""
    yield from figure_8()
    yield from searches()
    yield from first_service()
    yield from clusters()
    yield from tiresias_60()


def figure_8() -> Iterator[Measured]:
    """Yield the answer to Morphling's Figure 8, from the speed-ups that it prints."""
    equal, ours, _ = two_jobs(None)
    for shared in (equal, ours):
        for job, gpus, speed in zip(PAIR, shared.gpus, shared.normalised, strict=True):
            yield Measured("morphling figure 8", f"{shared.name} {job}", "GPUs", gpus)
            yield Measured("morphling figure 8", f"{shared.name} {job}", "speed", speed)


def searches() -> Iterator[Measured]:
    """Yield when the best of equal trials is complete and known, under FIFO and in slices."""
    for trials, gpus in ((16, 4), (64, 8)):
        for name, sliced in (("FIFO", False), ("slices", True)):
            ends_s = [
                run_search(trials, gpus, 3600.0, 60.0, best, sliced=sliced).known_best_s
                for best in range(trials)
            ]
            of = f"{trials} trials on {gpus} GPUs, {name}"
            yield Measured("gandiva search", of, "best known, s", float(np.mean(ends_s)))


def first_service() -> Iterator[Measured]:
    """Yield mean seconds to the first GPUs and average JCT on ``tiresias-480``, by policy."""
    for policy in ("fifo:skip", "gandiva:any-affinity"):
        scenario = mo.Scenario(trace="tiresias-480", policy=policy)
        run = scenario.replaced(restart_s=20.0, migrate_s=5.0, resume_s=1.0).run()
        for figure in ("first_service_s", "avg_jct_s"):
            value = float(str(run.summary.values[figure]))
            yield Measured("gandiva feedback", policy, figure, value)


def clusters() -> Iterator[Measured]:
    """Yield shares of the Acme study's figures A1, A3 and A4, percent, in its twins."""
    for trace in ("acme-twin", "acme-twin/kalos"):
        jobs = load_trace(trace).trace.jobs
        run_s = np.array([job.iterations for job in jobs], dtype=float)
        gpus = np.array([job.requested_gpus for job in jobs])
        held = gpus * run_s
        for limit_s in (128, 1024):
            share = 100.0 * float(np.mean(run_s <= limit_s))
            yield Measured("acme", trace, f"jobs of at most {limit_s} s, %", share)
        for most in (1, 8):
            share = 100.0 * float(np.mean(gpus <= most))
            yield Measured("acme", trace, f"jobs on at most {most} GPUs, %", share)
        for most in (8, 256):
            share = 100.0 * float(held[gpus <= most].sum() / held.sum())
            yield Measured("acme", trace, f"GPU time on at most {most} GPUs, %", share)


def tiresias_60() -> Iterator[Measured]:
    """Yield average JCTs of Tiresias' 60 jobs, ten times as long, on 16 GPUs, if they are here."""
    root = find("tiresias", "60_job.csv")
    if root is None:
        return
    rows = [row.times(10) for row in read_trace_rows(root / "60_job.csv")]
    for schedule in ("fifo", "shortest-gpu", "dlas-gpu"):
        runs = run_tiresias(rows, 16, schedule, artifact_quirks=schedule == "dlas-gpu")
        mean_s = sum(run.jct_s for run in runs) / len(runs)
        yield Measured("tiresias 60 jobs", schedule, "average JCT, s", mean_s)


def write(path: Path) -> None:
    """Measure, and write the numbers over those of the same names; others are kept."""
    rows = {}
    if path.is_file():
        rows = {
            tuple(row.cells[name] for name in HEADER[:3]): row.cells["value"]
            for row in read_rows(path, HEADER)
        }
    for one in measure():
        rows[one.seed, one.of, one.figure] = f"{one.value:.6g}"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([HEADER, *((*names, value) for names, value in sorted(rows.items()))])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())
