"""GPU-hours that stops waste, by who is stopped: ``python -m benchmarks.victims``.

Rigid jobs of two classes come to four nodes of 8 GPUs: jobs of the high class, which are not
stopped, and spot jobs with a checkpoint every two hours. Whom a high job stops is decided by two
policies under the same rules:

``youngest``
    spot jobs, the one that started last first, until the waiting high jobs start; those whose GPUs
    are left over keep them. Spot jobs start in order of arrival, each that fits.
``milp``
    those that lose least, by the classes of `docs/rules.md`; spot jobs start by the objective.

The streams are ``even`` (high jobs come evenly), ``bursts`` (five at a time) and ``wide`` (half of
the jobs take whole nodes).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product

import numpy as np

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain import A800_NODE, Cluster, ExecutionPlan, Job, Shape, SideDemand, Trace
from morph_opt.core.domain.units import HOUR_S
from morph_opt.core.table import Table
from morph_opt.inputs.perf.tables.table import MeasuredTable, Measurement
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.organisation import PriorityClass
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.filling import Filling, FillingPolicy
from morph_opt.scheduling.policies.options import PolicyOptions
from morph_opt.scheduling.policies.registry import make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.runs.groups import group_rows

DP = ExecutionPlan.parse("dp")
SIZES = (1, 2, 4, 8)
HIGH = 100.0
WHERE, GPUS = Cluster.uniform(4, A800_NODE), 32
TABLE = MeasuredTable(
    Measurement(f"m{gpus}", A800_NODE.gpu_type.name, Shape((gpus,)), DP, 8.0 / gpus, SideDemand())
    for gpus in SIZES
)
RULES = OperatorRules(
    (
        PriorityClass("high", (HIGH, HIGH), preemptible=False),
        PriorityClass("spot", (0.0, 0.0), "nothing"),
    )
)
CONFIG = ReplayConfig(
    restart_s=120.0,
    first_start_s=120.0,
    interval_s=300.0,
    at_stop="checkpoint",
    checkpoint_s=2.0 * HOUR_S,
)
STREAMS = {
    "even": (0.95, 1, (0.3, 0.25, 0.2, 0.25)),
    "bursts": (0.9, 5, (0.3, 0.25, 0.2, 0.25)),
    "wide": (0.9, 1, (0.15, 0.15, 0.2, 0.5)),
}
"""Load as a share of the GPUs, high jobs that come at once, and shares of the sizes."""


class YoungestFirst(FillingPolicy):
    """Policy that stops the spot jobs that started last."""

    name = "youngest"

    def fill(self, filling: Filling) -> None:
        """Keep as many spot jobs, oldest first, as let the waiting high jobs start."""
        states = filling.states
        spot = [job for job in filling.running if states[job].job.priority < HIGH]
        spot.sort(key=lambda job: states[job].last_start_s or 0.0)
        for job in filling.running:
            if job not in spot:
                filling.keep(job)
        high = [job for job in filling.waiting if states[job].job.priority >= HIGH]
        mark = filling.mark()
        for kept in range(len(spot), -1, -1):
            filling.back_to(mark)
            for job in spot[:kept]:
                filling.keep(job)
            started = [filling.start(job) for job in high]
            if all(started):
                break
        for job in spot[kept:]:
            filling.keep(job)
        for job in filling.waiting:
            if filling.choice[job] < 0 and states[job].job.priority < HIGH:
                filling.start(job)


def stream(name: str, seed: int, jobs: int) -> Trace:
    """Return jobs of both classes; every third or so is of the high one."""
    load, at_once, shares = STREAMS[name]
    draw = np.random.default_rng((seed, sorted(STREAMS).index(name)))
    high = draw.random(jobs) < 0.35
    gpus = draw.choice(SIZES, jobs, p=shares)
    seconds = draw.lognormal(np.log(np.where(high, 3600.0, 9000.0)), 1.0).clip(600.0, 60000.0)
    span_s = float((gpus * seconds).sum()) / (load * GPUS)
    come_s = np.sort(draw.uniform(0.0, span_s, jobs))
    of_high = np.flatnonzero(high)
    come_s[of_high] = come_s[of_high[np.arange(of_high.size) // at_once * at_once]]
    return Trace.of(
        f"{name}-{seed}",
        [
            Job(
                f"j{at:03d}",
                f"m{gpus[at]}",
                float(round(come_s[at])),
                max(1, int(seconds[at] * gpus[at] / 8.0)),
                int(gpus[at]),
                DP,
                priority=HIGH if high[at] else 0.0,
            )
            for at in range(jobs)
        ],
    )


HEADER = (
    "stream", "seed", "policy", "GPU-h lost", "evictions", "high: mean wait, s",
    "spot: mean time queued, s", "mean completion time, s",
)  # fmt: skip


def rows(name: str, seed: int, jobs: int) -> Iterator[tuple[str | int | float, ...]]:
    """Yield a row per policy."""
    policies: tuple[Policy, ...] = (
        YoungestFirst(TABLE),
        make_policy("milp", TABLE, PolicyOptions(objective="jct", rules=RULES, gap=1e-3)),
    )
    for policy in policies:
        found = replay(stream(name, seed, jobs), WHERE, policy, TABLE, CONFIG)
        of = {row.group: row for row in group_rows(found.history, RULES) if row.kind == "class"}
        yield (
            name, seed, policy.name, found.summary["gpu_hours_lost"], of["spot"].evictions,
            of["high"].waiting_mean_s, of["spot"].queued_mean_s, found.summary["avg_jct_s"],
        )  # fmt: skip


def make_parser() -> LineParser:
    """Build the parser."""
    parser = LineParser(prog="python -m benchmarks.victims", description=__doc__)
    parser.add_argument("--seeds", type=whole(1, 1000), default=3, help="seeds of a stream (3)")
    parser.add_argument("--jobs", type=whole(10, 10**5), default=220, help="jobs of a stream (220)")
    return parser


def main() -> int:
    """Print the table."""
    return run_command(make_parser(), _run, None)


def _run(given: argparse.Namespace) -> int:
    cases = product(STREAMS, range(given.seeds))
    found = [row for name, seed in cases for row in rows(name, seed, given.jobs)]
    shown = dict.fromkeys(HEADER[5:], ",.0f") | {"GPU-h lost": ".1f"}
    print(Table(HEADER, found, "lrlr", shown))
    for name in STREAMS:
        lost = {
            policy: sum(float(row[3]) for row in found if row[0] == name and row[2] == policy)
            for policy in ("youngest", "milp")
        }
        less = 100.0 * (1.0 - lost["milp"] / lost["youngest"])
        print(f"{name}: milp loses {less:.0f} % less")
    return 0


if __name__ == "__main__":
    sys.exit(main())
