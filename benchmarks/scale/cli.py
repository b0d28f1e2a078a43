"""Rounds of 64 to 65,536 GPUs: the ladder's phases, gap and growth, beside the exact MIP.

    python -m benchmarks.scale [--sizes 64 512 2048] [--types 1 3] [--rounds 4] [--exact-to 1024]
                               [--out reports/scale]

One thread; every case in a process of its own, so that memory is its own. Times are CPU seconds,
medians over the steady rounds, because the machine may be shared. Both methods decide the very same
states: the ladder's decision makes the next round. Writes ``rounds.csv`` and, from it alone,
``README.md``.
"""

from __future__ import annotations

import argparse
import csv
import gc
import math
import resource
import statistics
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import get_type_hints

import numpy as np

from benchmarks.scale.rounds import cold_round, round_after, speeds_of
from morph_opt.commandline import LineParser, run_command
from morph_opt.commandline.types import whole
from morph_opt.decision.ladder import COMPACT, Ladder
from morph_opt.decision.method import RoundMethod
from morph_opt.decision.placement import place
from morph_opt.decision.pose import RoundPoser
from morph_opt.decision.ranked import ExactMip
from morph_opt.policies.objectives.plain import OBJECTIVES
from morph_opt.solvers.highs import HighsSolver
from morph_opt.solvers.outcome import Limits
from morph_opt.table import Table

LIMITS = Limits(gap=1e-3, time_s=60.0)
SIZES = (64, 512, 1024, 2048, 8192)


@dataclass(frozen=True)
class Row:
    """One decided round; times are CPU seconds, the rest is of its report."""

    gpus: int
    types: int
    leaves: int
    objective: str
    round: int
    method: str
    jobs: int
    running: int
    candidates: int
    columns_s: float
    solve_s: float
    nodes_s: float
    step: str
    status: str
    value: float
    bound: float
    gap: float
    gap_of_gain: float
    peak_mib: float


def case(gpus: int, types: int, leaves: int, objective: str, rounds: int, exact: bool) -> list[Row]:
    """A cold round and the rounds that follow it, each by the ladder and, if asked, exactly."""
    state = cold_round(gpus, types, leaves)
    speeds = speeds_of(state.cluster)
    ladder = RoundPoser(speeds, OBJECTIVES[objective](), compact_from=COMPACT)
    methods: list[tuple[RoundMethod, RoundPoser]] = [(Ladder(HighsSolver()), ladder)]
    if exact:
        methods.append((ExactMip(HighsSolver()), RoundPoser(speeds, OBJECTIVES[objective]())))
    for _, poser in methods:
        poser.pose(state)  # configurations are enumerated once per cluster
    found = []
    for at in range(rounds):
        follows = None
        for method, poser in methods:
            gc.collect()
            gc.disable()
            began = time.process_time()
            posed = poser.pose(state)
            columns = time.process_time()
            solved = method.solve(posed, LIMITS)
            solve = time.process_time()
            if solved.selection is None:
                gc.enable()
                continue
            allocation = place(posed, solved.selection)
            placed = time.process_time()
            gc.enable()
            follows = follows or allocation
            value, bound = solved.selection.value(posed.worth), solved.outcome.bound
            running = posed.problem.jobs.running
            possible = bound - float(posed.worth.value[posed.problem.options.stays].sum())
            missing = max(0.0, bound - value)
            found.append(
                Row(
                    gpus, types, leaves, objective, at, method.name, len(state.jobs),
                    int(running.sum()), posed.problem.candidates.count,
                    columns - began, solve - columns, placed - solve,
                    solved.step, str(solved.outcome.status), value, bound, solved.outcome.gap,
                    0.0 if missing <= 1e-9 * abs(bound) else missing / max(possible, missing),
                    resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                )
            )  # fmt: skip
        if follows is None:
            break
        state = round_after(state, follows)
    return found


def exponent(points: Iterable[tuple[float, float]]) -> float:
    """Slope of a line through the logarithms: seconds grow as GPUs to this power."""
    x, y = (np.log(np.asarray(column)) for column in zip(*points, strict=True))
    return float(np.polyfit(x, y, 1)[0])


def write(rows: Sequence[Row], folder: Path) -> None:
    """The raw rows and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rounds.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        out.writeheader()
        out.writerows(asdict(row) for row in rows)
    (folder / "README.md").write_text(page(rows), "utf-8")


def read(folder: Path) -> list[Row]:
    """Rows that were measured earlier; cases that are measured again replace theirs."""
    path = folder / "rounds.csv"
    if not path.is_file():
        return []
    kinds = get_type_hints(Row)
    with path.open(newline="") as file:
        return [
            Row(**{name: kinds[name](text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


def _case_of(row: Row) -> tuple[int, int, int, str]:
    return row.gpus, row.types, row.leaves, row.objective


def page(rows: Sequence[Row]) -> str:
    """The report of these rows."""
    lines = [
        "# Rounds at scale",
        "",
        "Generated by `make bench-scale` from [rounds.csv](rounds.csv); nothing is typed by hand.",
        "",
        "Jobs of the twin `base`, 0.625 per GPU, restarts of 260 s; `cold`: everybody waits;",
        "`steady`: medians of the rounds that follow, between which one running job in twenty",
        "completes and as many arrive. CPU seconds of one thread; the gap asked for is 0.1 %.",
        "*Columns* is from the snapshot to the tables, *solve* everything from the tables to a",
        "checked decision with nodes and a checked bound, *GPUs* naming the GPUs. The gap is",
        "certified; *of gain* is the same difference over what deciding can gain at all.",
        "",
    ]
    for method, title in (("ladder", "The ladder"), ("node_pattern", "The exact MIP (HiGHS)")):
        mine = [row for row in rows if row.method == method]
        if mine:
            lines += [f"## {title}", "", _table(mine), ""]
    lines += ["## Growth", "", _growth(rows), ""]
    return "\n".join(lines)


def _groups(rows: Sequence[Row]) -> dict[tuple[int, int, int, str, str], list[Row]]:
    found: dict[tuple[int, int, int, str, str], list[Row]] = {}
    for row in rows:
        kind = "steady" if row.round else "cold"
        found.setdefault((row.gpus, row.types, row.leaves, row.objective, kind), []).append(row)
    return found


def _table(rows: Sequence[Row]) -> str:
    head = (
        "GPUs", "types", "leaves", "objective", "round", "jobs", "candidates", "columns s",
        "solve s", "worst s", "GPUs s", "gap %", "worst gap %", "of gain %", "steps", "peak MiB",
    )  # fmt: skip
    body = []
    for (gpus, types, leaves, objective, kind), group in sorted(_groups(rows).items()):
        middle = {
            name: statistics.median(getattr(row, name) for row in group)
            for name in ("columns_s", "solve_s", "nodes_s", "gap", "gap_of_gain")
        }
        steps = sorted({row.step for row in group})
        body.append(
            (
                f"{gpus:,}", str(types), str(leaves), f"`{objective}`", kind, f"{group[0].jobs:,}",
                f"{group[-1].candidates:,}", f"{middle['columns_s']:.3f}",
                f"{middle['solve_s']:.3f}", f"{max(row.solve_s for row in group):.3f}",
                f"{middle['nodes_s']:.3f}", f"{100 * middle['gap']:.4f}",
                f"{100 * max(row.gap for row in group):.4f}",
                f"{100 * middle['gap_of_gain']:.3f}", ", ".join(steps),
                f"{max(row.peak_mib for row in group):.0f}",
            )
        )  # fmt: skip
    return Table(head, tuple(body)).to_markdown()


def _growth(rows: Sequence[Row]) -> str:
    """Exponents of columns + solve from 2,048 GPUs on."""
    said = []
    for method in ("ladder", "node_pattern"):
        for types in sorted({row.types for row in rows}):
            points = [
                (float(gpus), statistics.median(r.columns_s + r.solve_s for r in group))
                for (gpus, t, leaves, objective, kind), group in _groups(
                    [row for row in rows if row.method == method]
                ).items()
                if (t, leaves, objective, kind) == (types, 1, "throughput", "steady")
                and gpus >= 2048
            ]
            if len(points) > 1:
                low, high = min(points)[0], max(points)[0]
                said.append(
                    f"* `{method}`, {types} type{'s' * (types > 1)}, steady `throughput`, columns "
                    f"and solve, {low:,.0f} to {high:,.0f} GPUs: exponent "
                    f"{exponent(points):.2f} over {len(points)} sizes."
                )
    return "\n".join(said) or "Fewer than two sizes from 2,048 GPUs on were measured."


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.scale", description=__doc__)
    size, count = whole(8, 10**6), whole(1, 100)
    parser.add_argument("--sizes", type=size, nargs="+", default=list(SIZES), help="GPUs")
    parser.add_argument("--types", type=count, nargs="+", default=[1, 3], help="numbers of types")
    parser.add_argument("--rounds", type=count, default=4, help="of each case, the first is cold")
    parser.add_argument(
        "--exact-to", type=whole(0, 10**6), default=1024, help="GPUs up to which it is solved"
    )
    parser.add_argument("--out", type=Path, default=Path("reports/scale"))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the report."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    cases = [
        (gpus, types, leaves, objective)
        for gpus in options.sizes
        for types in options.types
        for leaves, objective in ((1, "throughput"), (1, "jct"), (4, "throughput"))
        if gpus // 8 >= 4 * leaves or leaves == 1
    ]
    rows = [row for row in read(options.out) if _case_of(row) not in cases]
    for gpus, types, leaves, objective in cases:
        exact = gpus <= options.exact_to
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            found = alone.submit(
                case, gpus, types, leaves, objective, options.rounds, exact
            ).result()
        rows += found
        worst = max((row.solve_s for row in found if row.method == "ladder"), default=math.nan)
        print(
            f"{gpus} GPUs, {types} types, {leaves} leaves, {objective}: {worst:.3f} s", flush=True
        )
        write(rows, options.out)
    return 0
