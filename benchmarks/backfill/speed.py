"""CPU seconds of a replay under a batch scheduler: ``python -m benchmarks.backfill.speed N``.

N jobs of 1 to 64 GPUs on 64 nodes of 8 GPUs, with limits as users state them, by rounds at events.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from random import Random

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.domain import Cluster, Job, Range, Trace
from morph_opt.core.domain.catalog import A800_NODE
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN, Gang, GangTable
from morph_opt.inputs.traces.limits import LimitLaw, with_limits
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.batch import BatchPolicy, Conservative, Easy
from morph_opt.scheduling.policies.slurm import Site, SlurmPolicy
from morph_opt.simulation.engine.config import ReplayConfig

NODES = 64
GPUS = {1: 0.30, 2: 0.14, 4: 0.20, 8: 0.20, 16: 0.10, 32: 0.04, 64: 0.02}
"""Requested GPUs and their shares."""
MEDIAN_S, SPREAD, SHORTEST_S, LONGEST_S = 2_400.0, 1.2, 60, 86_400
"""Run times: a log-normal law within limits."""
POLICIES = ("easy", "conservative", "slurm")


def draw(count: int, load: float, seed: int = 0) -> Trace:
    """Draw jobs whose GPU-seconds are ``load`` times those of the cluster while they arrive."""
    random = Random(seed)
    gpus = random.choices(list(GPUS), list(GPUS.values()), k=count)
    runs_s = [random.lognormvariate(math.log(MEDIAN_S), SPREAD) for _ in gpus]
    runs = [round(min(max(run_s, SHORTEST_S), LONGEST_S)) for run_s in runs_s]
    work_gpu_s = sum(size * run_s for size, run_s in zip(gpus, runs, strict=True))
    span_s = work_gpu_s / (NODES * A800_NODE.gpus) / load
    jobs = [
        Job(
            f"j{number}",
            Gang(size, types=()).name,
            random.uniform(0.0, span_s),
            run_s,
            size,
            RIGID_PLAN,
            user=f"u{number % 20}",
        )
        for number, (size, run_s) in enumerate(zip(gpus, runs, strict=True))
    ]
    limited = with_limits(jobs, LimitLaw("modal"), lambda job: float(job.iterations), seed)
    return Trace.of(f"{count} jobs", limited)


def measure(trace: Trace, policy: str) -> tuple[float, float, int]:
    """Return the CPU seconds of a replay, the mean wait in seconds, and the number of rounds."""
    belief = GangTable({Gang(size, types=()): None for size in GPUS}, None)
    made: BatchPolicy
    match policy:
        case "easy":
            made = Easy(belief)
        case "conservative":
            made = Conservative(belief)
        case _:
            made = SlurmPolicy(belief, Site())
    config = ReplayConfig(rounds="events", restart_s=0.0)
    began_s = time.process_time()
    done = replay(trace, Cluster.uniform(NODES, A800_NODE), made, belief, config)
    cpu_s = time.process_time() - began_s
    waits_s = [
        job.starting_s - job.job.submission_s
        for job in done.history.jobs
        if job.starting_s is not None
    ]
    return cpu_s, sum(waits_s) / len(waits_s), len(done.rounds)


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.backfill.speed", description=__doc__)
    parser.add_argument(
        "jobs", nargs="?", type=whole(1, 1_000_000), default=10_000, help="jobs (10000)"
    )
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    parser.add_argument(
        "--load", type=Number(Range(0.01, 10.0)), default=0.9, help="load of the cluster (0.9)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    print("| policy | jobs | load | rounds | mean wait s | CPU s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    trace = draw(options.jobs, options.load)
    for policy in options.policies:
        cpu_s, wait_s, rounds = measure(trace, policy)
        count, load = f"{options.jobs:,}", f"{options.load:g}"
        print(f"| `{policy}` | {count} | {load} | {rounds:,} | {wait_s:,.0f} | {cpu_s:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
