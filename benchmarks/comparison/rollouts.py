"""Rollouts over sampled futures: is it worth to try decisions before one is taken?

    python -m benchmarks.comparison.rollouts [--traces acme-bursts] [--seeds 0,1]

Where objectives disagree about a round, what each decided is followed to the end in a cheap
simulator, with the same sampled arrivals for all of them (common random numbers), and the one that
then has the least completion time in sum is taken. Futures are stretches of the arrivals so far
with jobs drawn from those seen, so that bursts stay bursts; durations are known. Rows are kept in
``rollouts.csv`` of the comparison and not made again, and a table in the decision about the default
objective is made of them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.comparison.calibration import field_of
from benchmarks.comparison.cli import read_records
from benchmarks.comparison.contenders import (
    Contender,
    Field,
    ask_seeds,
    ask_traces,
    scenario_of,
)
from benchmarks.comparison.objectives import write_block
from benchmarks.comparison.records import REFERENCE, Record, interval
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.documents import read_rows, write_atomically
from morph_opt.core.domain import Job, RoundState
from morph_opt.core.table import Table
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy

FOLDER = Path("reports/comparison")
PAGE = Path("docs/decisions/0037-auto.md")
TRACES = ("acme-bursts", "philly-bursts")
OBJECTIVES = ("auto", "jct", "lookahead")
"""Whose decisions are tried; the first is taken where they are as good."""
FUTURES, HORIZON_S = 4, 12 * 3600.0
"""Sampled, and how far arrivals reach in each."""
COLUMNS = ("trace", "seed", "avg_jct_s", "rounds", "tried", "changed")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a job can be in a future.

    Parameters
    ----------
    ways
        GPUs and seconds per iteration, fewest GPUs first, more only where they are faster.
    iterations, restart_s
        What it has to do, and what a start costs.
    """

    ways: tuple[tuple[int, float], ...]
    iterations: float
    restart_s: float


@dataclass(slots=True)
class Simulated:
    """A job in the simulator: what it has left, and what it holds; 0 GPUs while it waits."""

    kind: Kind
    left: float
    arrived_s: float
    gpus: int = 0
    iteration_s: float = 0.0
    ahead_s: float = 0.0

    @property
    def end_s(self) -> float:
        """Seconds until it ends as it runs."""
        return self.ahead_s + self.left * self.iteration_s

    @property
    def work(self) -> float:
        """GPU-seconds until it ends, as it runs or from a start on the fewest GPUs."""
        if self.gpus:
            return self.gpus * self.end_s
        gpus, iteration_s = self.kind.ways[0]
        return gpus * (self.kind.restart_s + self.left * iteration_s)

    def run(self, seconds: float) -> None:
        """Work for so long, at most to its end."""
        waited = min(self.ahead_s, seconds)
        self.ahead_s -= waited
        self.left -= (seconds - waited) / self.iteration_s


def sum_s(
    jobs: Sequence[Simulated],
    arrivals: Sequence[tuple[float, Kind]],
    gpus: int,
    round_s: float,
) -> float:
    """Completion times in sum, from now on, if after this round the least work goes first.

    Nodes are not looked at. At boundaries jobs get GPUs in the order of their work left: one that
    runs keeps what it holds or stops, one that starts takes an even share at most.

    Parameters
    ----------
    jobs
        As decided for the round that begins now; they are changed.
    arrivals
        Seconds from now, ascending, and what arrives.
    """
    active, coming, now_s, total_s = list(jobs), list(arrivals), 0.0, 0.0
    coming.reverse()
    while active or coming:
        until_s = min((job.end_s for job in active if job.gpus), default=math.inf)
        if coming:
            until_s = min(until_s, coming[-1][0] - now_s)
        if until_s == math.inf:
            break  # nothing fits any more
        step_s = max(1, math.ceil(until_s / round_s - 1e-9)) * round_s
        going = []
        for job in active:
            if job.gpus and job.end_s <= step_s + 1e-9:
                total_s += now_s + job.end_s - job.arrived_s
                continue
            if job.gpus:
                job.run(step_s)
            going.append(job)
        now_s += step_s
        while coming and coming[-1][0] <= now_s + 1e-9:
            at_s, kind = coming.pop()
            going.append(Simulated(kind, kind.iterations, at_s))
        active, free = going, gpus
        for job in sorted(active, key=lambda job: job.work):
            if job.gpus:
                job.gpus = job.gpus if job.gpus <= free else 0
            else:
                share = max(gpus / len(active), job.kind.ways[0][0])
                for width, iteration_s in job.kind.ways:
                    if width <= min(free, share):
                        job.gpus, job.iteration_s = width, iteration_s
                        job.ahead_s = job.kind.restart_s
            free -= job.gpus
    return total_s + sum(now_s - job.arrived_s for job in active)


class Rollouts(Policy):
    """Takes the decision that does best in sampled futures.

    Parameters
    ----------
    belief
        Speeds that it goes by.
    """

    name = "rollouts"

    def __init__(self, belief: SpeedModel) -> None:
        options = (PolicyOptions(objective=objective) for objective in OBJECTIVES)
        self._policies = [make_policy("milp", belief, each) for each in options]
        self._builder = CandidateBuilder(belief)
        self._kinds: dict[str, Kind] = {}
        self._arrived_s: list[float] = []
        self.rounds = self.tried = self.changed = 0

    def observe(self, state: RoundState) -> None:
        """Note what arrives."""
        for known in state.jobs:
            if known.job.name not in self._kinds:
                ways = self._ways(known.job, state)
                self._kinds[known.job.name] = Kind(ways, known.job.iterations, known.restart_s)
                self._arrived_s.append(state.time_s)

    def decide(self, state: RoundState) -> Decision:
        """See `Policy`."""
        self.observe(state)
        decisions = [policy.decide(state) for policy in self._policies]
        self.rounds += 1
        if all(one.allocation == decisions[0].allocation for one in decisions):
            return decisions[0]
        self.tried += 1
        futures = [self._future(state, n) for n in range(FUTURES)]
        gpus = sum(node.type.gpus for node in state.cluster.nodes)
        found = [
            sum(
                sum_s(self._after(state, one), future, gpus, state.interval_s) for future in futures
            )
            for one in decisions
        ]
        best = found.index(min(found))
        self.changed += best > 0
        return replace(decisions[best], steady=False)

    def _ways(self, job: Job, state: RoundState) -> tuple[tuple[int, float], ...]:
        rows = self._builder.all_of(job, state.cluster)
        ways: list[tuple[int, float]] = []
        for width, iteration_s in sorted(
            zip(rows.gpus.tolist(), rows.iteration_s.tolist(), strict=True)
        ):
            if not ways or (width > ways[-1][0] and iteration_s < ways[-1][1]):
                ways.append((int(width), float(iteration_s)))
        return tuple(ways)

    def _after(self, state: RoundState, decision: Decision) -> list[Simulated]:
        """Jobs as a decision leaves them, but for those that fit nowhere."""
        given, jobs = decision.allocation.by_job(), []
        for known in state.jobs:
            kind = self._kinds[known.job.name]
            if not kind.ways:
                continue
            job = Simulated(kind, known.iterations_left, 0.0)
            if known.job.name in given:
                held = given[known.job.name]
                job.gpus = sum(len(gpus) for _, gpus in held.placement.parts)
                fitting = [it for width, it in kind.ways if width <= job.gpus]
                job.iteration_s = fitting[-1] if fitting else kind.ways[0][1]
                stays = held == known.running
                job.ahead_s = known.restart_left_s if stays else known.restart_s
            jobs.append(job)
        return jobs

    def _future(self, state: RoundState, number: int) -> list[tuple[float, Kind]]:
        """Arrivals as from some instant of the past on, over and over, of kinds drawn anew."""
        draw = np.random.default_rng((state.index, number))
        kinds = [kind for kind in self._kinds.values() if kind.ways]
        past_s = max(state.time_s, state.interval_s)
        since_s = draw.uniform(0.0, past_s)
        times = sorted((at_s - since_s) % past_s for at_s in self._arrived_s)
        return [
            (at_s, kinds[int(draw.integers(len(kinds)))])
            for at_s in times
            if 0.0 < at_s < HORIZON_S and kinds
        ]


def measured(field: Field, seed: int) -> dict[str, str]:
    """Replay a twin; its row."""
    scenario = scenario_of(field, seed, Contender(REFERENCE, "milp"))
    loaded = load_trace(field.name, seed=seed, **dict(field.sized))
    policy = Rollouts(loaded.truth)
    found = replay(loaded.trace, scenario.cluster, policy, loaded.truth, scenario.engine).summary
    cells = (f"{found['avg_jct_s']:.6g}", policy.rounds, policy.tried, policy.changed)
    return dict(zip(COLUMNS, map(str, (field.title, seed, *cells)), strict=True))


def table(rows: Sequence[dict[str, str]], records: Sequence[Record]) -> str:
    """Average JCT of rollouts and of the objectives they choose from, and ratios, by trace."""
    labels = (REFERENCE, *(f"MILP `{objective}`" for objective in OBJECTIVES[1:]))
    body = []
    for trace in dict.fromkeys(row["trace"] for row in rows):
        mine = {int(row["seed"]): row for row in rows if row["trace"] == trace}
        of = [
            {r.seed: r.avg_jct_s for r in records if (r.trace, r.policy) == (trace, label)}
            for label in labels
        ]
        seeds = sorted(set.intersection(set(mine), *map(set, of)))
        if not seeds:
            continue
        own = {seed: float(mine[seed]["avg_jct_s"]) for seed in seeds}
        means = [float(np.mean([values[seed] for seed in seeds])) for values in (own, *of)]
        cells = [f"{mean:,.0f} s" for mean in means]
        for values in of[:2]:
            centre, low, high = interval([own[seed] / values[seed] for seed in seeds])
            cells.append(f"{centre:.3f} [{low:.3f} to {high:.3f}]")
        tried = sum(int(mine[seed]["tried"]) for seed in seeds)
        changed = sum(int(mine[seed]["changed"]) for seed in seeds)
        body.append((f"`{trace}`", ", ".join(map(str, seeds)), *cells, f"{changed} of {tried}"))
    header = (
        "trace",
        "seeds",
        "rollouts",
        *(f"`{objective}`" for objective in OBJECTIVES),
        *(f"over `{objective}`" for objective in OBJECTIVES[:2]),
        "other than `auto`",
    )
    return Table(header, body, "llrrrrrrr").to_markdown()


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(make_parser(), _run, arguments)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.comparison.rollouts", description=__doc__)
    ask_traces(parser, TRACES)
    ask_seeds(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    file = FOLDER / "rollouts.csv"
    kept = [dict(row.cells) for row in read_rows(file, COLUMNS)] if file.is_file() else []
    rows = {(row["trace"], int(row["seed"])): row for row in kept}
    for field in map(field_of, options.traces):
        for seed in options.seeds:
            if (field.title, seed) in rows:
                continue
            rows[field.title, seed] = measured(field, seed)
            lines = [",".join(rows[key][name] for name in COLUMNS) for key in sorted(rows)]
            write_atomically(file, "\n".join([",".join(COLUMNS), *lines, ""]))
    ordered = [rows[key] for key in sorted(rows)]
    write_block(PAGE, "rollouts", table(ordered, read_records(FOLDER / "results.csv")))
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
