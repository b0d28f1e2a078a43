"""What packing gains: the twin ``gavel-96`` with and without pairs, and times of large rounds.

    python -m benchmarks.packing [--seeds 0] [--keep-replays] [--out reports/packing]

Replays of 96 jobs on 4 V100, 4 P100 and 4 K80 in rounds of 60 s, start-up 260 s, one thread; then
single rounds of many queued jobs on 16 GPUs of each type, decided twice: at first nothing runs,
then what the first decision started; then the first of these rounds with more and fewer partners
offered per job. ``--keep-replays`` takes what ``replays.csv`` has and runs the rest. The twin's
contention factors are its own (``docs/traces.md``), so the gain is one of the method, not of any
real pair of models.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import product
from pathlib import Path

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import Number
from morph_opt.core.domain import SEEDS, JobState, RoundState
from morph_opt.core.table import Table
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.tables.gavel import GavelTable
from morph_opt.inputs.traces.registry import FORMATS
from morph_opt.inputs.traces.twins.gavel import gavel_twin
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.candidates.pairs import PairBuilder
from morph_opt.scheduling.decision.params import PairParams
from morph_opt.scheduling.decision.pose import RoundPoser
from morph_opt.scheduling.decision.ranked import RoundSolver
from morph_opt.scheduling.policies.objectives.plain import OBJECTIVES as OBJECTIVES_BY_NAME
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.solvers.outcome import Limits
from morph_opt.scheduling.solvers.registry import make_solver

OBJECTIVES = ("jct", "throughput", "fairness", "max_throughput")
SIZES = (96, 256, 512)
OFFERS = (1, 2, 4, 8, 16, 32)
LARGE_CLUSTER = "4x4:V100+4x4:P100+4x4:K80"
HOUR_S = 3600.0
LIMIT_S = 600.0
"""No round shall end by the clock: the tables would depend on the machine's load."""


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """One replay."""

    objective: str
    seed: int
    packing: bool
    avg_jct_h: float
    makespan_h: float
    avg_jct_bound_h: float
    makespan_bound_h: float
    gpu_utilization: float
    packed_gpu_share: float
    packed_jobs: int
    restarts_per_job: float
    ftf_max: float
    round_ms_p50: float
    round_ms_p99: float


@dataclass(frozen=True, slots=True)
class RoundTime:
    """One large round: first nothing runs, then what was started does."""

    objective: str
    jobs: int
    packing: bool
    running: int
    candidates: int
    packed_jobs: int
    round_ms: float


def replays(seeds: list[int], known: list[ReplayRow]) -> Iterator[ReplayRow]:
    """Every seed and objective, alone and packed; known rows are not run again."""
    cluster = load_cluster(FORMATS["gavel-96"].home or "")
    done = {(row.objective, row.seed, row.packing): row for row in known}
    for seed in seeds:
        for objective in OBJECTIVES:
            for packing in (False, True):
                if (objective, seed, packing) in done:
                    yield done[objective, seed, packing]
                    continue
                trace, truth = gavel_twin(seed)
                options = PolicyOptions(objective=objective, packing=packing, time_limit_s=LIMIT_S)
                policy = make_policy("milp", truth, options)
                found = replay(trace, cluster, policy, truth, packing=packing).summary
                yield ReplayRow(
                    objective,
                    seed,
                    packing,
                    _number(found, "avg_jct_s") / HOUR_S,
                    _number(found, "makespan_s") / HOUR_S,
                    _number(found, "avg_jct_lower_bound_s") / HOUR_S,
                    _number(found, "makespan_lower_bound_s") / HOUR_S,
                    _number(found, "gpu_utilization"),
                    _number(found, "packed_gpu_share"),
                    int(_number(found, "packed_jobs")),
                    _number(found, "restarts_per_job"),
                    _number(found, "ftf_max"),
                    _number(found, "round_ms_p50"),
                    _number(found, "round_ms_p99"),
                )


def _number(summary: Mapping[str, object], key: str) -> float:
    """A value of a summary; 0 where a run without packing has none."""
    value = summary.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


@dataclass(frozen=True, slots=True)
class OfferRow:
    """The first round of `round_times` with another number of partners offered per job."""

    objective: str
    jobs: int
    partners: int
    candidates: int
    objective_of_all: float
    round_ms: float


def _pool() -> tuple[list[JobState], GavelTable]:
    """Jobs of several twins, all submitted and queued, and their speeds."""
    twins = [gavel_twin(seed) for seed in range(6)]
    jobs = [
        replace(job, name=f"{seed}-{job.name}", submission_s=0.0)
        for seed, (trace, _) in enumerate(twins)
        for job in trace.jobs
    ]
    return [JobState(job, restart_s=260.0) for job in jobs], twins[0][1]


def offers() -> Iterator[OfferRow]:
    """What a round is worth, relative to the one with most offers, by partners per job."""
    cluster = load_cluster(LARGE_CLUSTER)
    pool, truth = _pool()
    solver, limits = make_solver("highs"), Limits(gap=1e-4, time_s=LIMIT_S)
    for name, size in product(("throughput", "jct"), SIZES):
        state = RoundState(0, 60.0, 60.0, cluster, tuple(pool[:size]))
        found: list[tuple[int, int, float, float]] = []
        for partners in OFFERS:
            began = time.perf_counter()
            many = partial(PairBuilder, params=PairParams(partners=partners, fresh=10**9))
            goal = OBJECTIVES_BY_NAME[name]()
            posed = RoundPoser(truth, goal, packing=truth, pairs=many).pose(state)
            solved = RoundSolver(solver, limits).ranked(posed.problem, posed.levels)
            spent_s = time.perf_counter() - began
            value = solved.outcome.objective
            found.append((partners, posed.problem.candidates.count, value, 1e3 * spent_s))
        for partners, candidates, value, spent_ms in found:
            yield OfferRow(name, size, partners, candidates, value / found[-1][2], spent_ms)


def round_times() -> Iterator[RoundTime]:
    """Rounds of many jobs: those of several twins, all submitted."""
    cluster = load_cluster(LARGE_CLUSTER)
    pool, truth = _pool()
    for objective in ("throughput", "jct"):
        for size in SIZES:
            for packing in (False, True):
                options = PolicyOptions(objective=objective, packing=packing, time_limit_s=LIMIT_S)
                policy = make_policy("milp", truth, options)
                jobs = tuple(pool[:size])
                for index in range(2):
                    state = RoundState(index, 60.0 + 60.0 * index, 60.0, cluster, jobs)
                    began = time.perf_counter()
                    decision = policy.decide(state)
                    spent_s = time.perf_counter() - began
                    held = decision.allocation.by_job()
                    yield RoundTime(
                        objective,
                        size,
                        packing,
                        sum(job.running is not None for job in jobs),
                        decision.report.candidates,
                        sum(a.partner is not None for a in held.values()),
                        1e3 * spent_s,
                    )
                    jobs = tuple(replace(job, running=held.get(job.job.name)) for job in jobs)


def _write(
    path: Path, kind: type, rows: list[ReplayRow] | list[RoundTime] | list[OfferRow]
) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(kind)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def _read(path: Path) -> list[ReplayRow]:
    """Replays of an earlier run of this command."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    kinds = {"objective": str, "seed": int, "packing": "True".__eq__, "packed_jobs": int}
    return [
        ReplayRow(**{name: kinds.get(name, float)(text) for name, text in line.items()})
        for line in lines
    ]


def report(rows: list[ReplayRow], times: list[RoundTime], offered: list[OfferRow]) -> str:
    """The page, a mean over seeds per line."""
    seeds = sorted({row.seed for row in rows})
    lines = [
        "# Packing on the twin gavel-96",
        "",
        "Written by `python -m benchmarks.packing`; rows per seed are in `replays.csv`. Means over "
        f"seeds {', '.join(map(str, seeds))}; 4 V100 + 4 P100 + 4 K80, rounds of 60 s, start-up "
        "260 s.",
        "",
    ]
    means = []
    for objective in OBJECTIVES:
        for packing in (False, True):
            mine = [r for r in rows if (r.objective, r.packing) == (objective, packing)]

            def mean(name: str, of: list[ReplayRow] = mine) -> float:
                return sum(float(getattr(row, name)) for row in of) / len(of)

            means.append(
                (
                    f"`{objective}`",
                    "yes" if packing else "no",
                    f"{mean('avg_jct_h'):.2f}",
                    f"{mean('makespan_h'):.2f}",
                    f"{mean('avg_jct_bound_h'):.2f}, {mean('makespan_bound_h'):.2f}",
                    f"{100 * mean('packed_gpu_share'):.0f} %",
                    f"{mean('restarts_per_job'):.2f}",
                    f"{mean('ftf_max'):.2f}",
                    f"{mean('round_ms_p50'):.1f}",
                )
            )
    header = ("objective", "packing", "average JCT, h", "makespan, h", "lower bounds, h",
              "packed GPU time", "restarts per job", "worst finish-time ratio",
              "round p50, ms")  # fmt: skip
    lines += [
        Table(header, means, align="l").to_markdown(),
        "",
        f"Single rounds on {LARGE_CLUSTER}, one thread; candidates include the pairs.",
        "",
        _times_table(times).to_markdown(),
        "",
        "The first of these rounds, by the number of partners that a job is offered at most (one "
        "per training model); worth relative to the last line of each round.",
        "",
        _offers_table(offered).to_markdown(),
    ]
    return "\n".join(lines) + "\n"


def _times_table(times: list[RoundTime]) -> Table:
    rows = [
        (
            f"`{t.objective}`",
            t.jobs,
            t.running,
            "yes" if t.packing else "no",
            t.candidates,
            t.packed_jobs,
            f"{t.round_ms:.0f}",
        )
        for t in times
    ]
    header = ("objective", "jobs", "running", "packing", "candidates", "jobs in pairs", "round, ms")
    return Table(header, rows, align="l")


def _offers_table(offered: list[OfferRow]) -> Table:
    rows = [
        (
            f"`{o.objective}`",
            o.jobs,
            o.partners,
            o.candidates,
            f"{o.objective_of_all:.4f}",
            f"{o.round_ms:.0f}",
        )
        for o in offered
    ]
    return Table(("objective", "jobs", "partners", "candidates", "worth", "round, ms"), rows, "l")


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.packing", description=__doc__)
    parser.add_argument("--seeds", type=Number(SEEDS), nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("reports/packing"))
    parser.add_argument("--keep-replays", action="store_true")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report."""
    return run_command(make_parser(), _run, arguments)


def _run(given: argparse.Namespace) -> int:
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "replays.csv"
    known = _read(file) if given.keep_replays and file.exists() else []
    rows: list[ReplayRow] = []
    for row in replays(given.seeds, known):
        rows.append(row)
        _write(file, ReplayRow, rows)
    times, offered = list(round_times()), list(offers())
    _write(given.out / "rounds.csv", RoundTime, times)
    _write(given.out / "offers.csv", OfferRow, offered)
    (given.out / "README.md").write_text(report(rows, times, offered), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(as_process(main))
