"""The grand comparison: policies on traces, what they may change and know, paired over twins.

    python -m benchmarks.comparison [--traces base,mt] [--seeds 0,1] [--minutes 15]

Every replay is a row of ``reports/comparison/results.csv``, by the digest of its scenario; rows
that are there are not run again, so that the command may be interrupted, or given minutes, or
called twice at a time, and goes on where it ended; ``--merge`` takes rows of a call elsewhere.
``reports/comparison/README.md`` is made of the rows alone.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import asdict, fields
from functools import cache
from itertools import islice
from pathlib import Path

from benchmarks.comparison.contenders import (
    CONTENDERS,
    FIELDS,
    TWINS,
    Contender,
    Field,
    ask_seeds,
    ask_traces,
    scenario_of,
    scenarios,
)
from benchmarks.comparison.objectives import PAGE as SAVED_TIME
from benchmarks.comparison.objectives import objectives_table, write_block
from benchmarks.comparison.page import page
from benchmarks.comparison.picture import over_the_default
from benchmarks.comparison.records import WAITS, Record
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import Number, whole
from morph_opt.core.documents import read_rows, write_atomically
from morph_opt.core.domain import InputError, Range
from morph_opt.inputs.data.store import find
from morph_opt.sweep.cell import sources_digest

FOLDER = Path("reports/comparison")


def measured(field: Field, seed: int, contender: Contender) -> Record:
    """Replay, and keep what the tables show; no jobs of a policy that refuses the trace."""
    scenario = scenario_of(field, seed, contender)
    began = time.perf_counter()
    try:
        summary = scenario.run().summary.values
    except InputError as error:
        print(f"{field.title} {seed} {contender.label} is refused: {error}", file=sys.stderr)
        summary = {"jobs": 0, "completed": 0, "rounds_over_capacity": 0}

    def number(name: str) -> float:
        value = summary.get(name)
        return float("nan") if value is None else float(value)

    return Record(
        digest=contender.key(scenario),
        code=sources_digest()[:8],
        trace=field.title,
        seed=seed,
        policy=contender.label,
        may_change_gpus=int(contender.may_change_gpus),
        knows=contender.knows,
        jobs=int(number("jobs")),
        completed=int(number("completed")),
        over_capacity=int(number("rounds_over_capacity")),
        avg_jct_s=number("avg_jct_s"),
        median_jct_s=number("median_jct_s"),
        p99_jct_s=number("p99_jct_s"),
        makespan_s=number("makespan_s"),
        guaranteed_avg_jct_s=number("guaranteed_avg_jct_s"),
        guaranteed_late_jobs=number("guaranteed_late_jobs"),
        ftf_mean=number("ftf_mean"),
        restarts_per_job=number("restarts_per_job"),
        gpu_utilization=number("gpu_utilization"),
        round_ms_p50=number("round_ms_p50"),
        round_ms_p99=number("round_ms_p99"),
        bound_s=number("avg_jct_lower_bound_s"),
        makespan_bound_s=number("makespan_lower_bound_s"),
        wall_s=time.perf_counter() - began,
        **{name: number(name) for name in WAITS},
    )


def read_records(path: Path) -> list[Record]:
    """Rows of earlier calls."""
    if not path.is_file():
        return []
    kinds = {field.name: field.type for field in fields(Record)}
    convert = {"str": str, "int": int, "float": float}
    return [
        Record(
            **{name: convert[str(kinds[name])](cell or "nan") for name, cell in row.cells.items()}
        )
        for row in read_rows(path, tuple(kinds))
    ]


def write_records(records: Sequence[Record]) -> None:
    """All rows, in the order of traces, seeds and contenders.

    Of several of one policy on the same jobs, as calls at a time and older versions of the sources
    may make them, the last whose scenario is that of today, or the last. Those that go by guesses
    made otherwise than today are dropped.
    """
    order = [contender.label for contender in CONTENDERS]
    names = [field.title for field in FIELDS]
    guess = {contender.label for contender in CONTENDERS if contender.guesses}
    rising = sorted((r for r in records if _of_today(r) or r.policy not in guess), key=_of_today)
    records = sorted(
        {(record.trace, record.seed, record.policy): record for record in rising}.values(),
        key=lambda r: (_place(names, r.trace), r.seed, _place(order, r.policy), r.digest),
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_atomically(FOLDER / "results.csv", rows_text(records))


def rows_text(records: Sequence[Record]) -> str:
    """Rows as a file holds them."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(field.name for field in fields(Record))
    writer.writerows(map(_cell, asdict(record).values()) for record in records)
    return buffer.getvalue()


def write_page() -> None:
    """What the rows say, in words, a picture and tables."""
    order = [contender.label for contender in CONTENDERS]
    records = read_records(FOLDER / "results.csv")
    done = {record.digest for record in records}
    left = sum(
        contender.key(scenario) not in done
        for _, _, contender, scenario in scenarios(FIELDS, TWINS)
    )
    write_atomically(FOLDER / "over-default.svg", over_the_default(records, order))
    guard = FOLDER / "never-beaten.md"
    table = guard.read_text(encoding="utf-8") if guard.is_file() else ""
    write_atomically(FOLDER / "README.md", page(records, order, hindsight(), left, table))
    write_block(SAVED_TIME, "objectives", objectives_table(records))


def hindsight() -> dict[tuple[str, int], float]:
    """Mean completion time of the best schedule found with hindsight, by trace and seed."""
    file = FOLDER.parent / "hindsight" / "search.csv"
    if not file.is_file():
        return {}
    rows = read_rows(file, ("trace", "seed", "hindsight_s"), None)
    return {
        (row.text("trace"), int(row.text("seed"))): row.number("hindsight_s", at_least=0.0)
        for row in rows
    }


def _of_today(record: Record) -> bool:
    """Whether a row is what its contender would be replayed as today."""
    return record.digest == _key_today(record.trace, record.seed, record.policy)


@cache
def _key_today(trace: str, seed: int, policy: str) -> str:
    field = next((field for field in FIELDS if field.title == trace), None)
    contender = next((contender for contender in CONTENDERS if contender.label == policy), None)
    return (
        ""
        if field is None or contender is None
        else contender.key(scenario_of(field, seed, contender))
    )


def _place(names: Sequence[str], name: str) -> int:
    """Where a name stands; behind them all if it does not."""
    return names.index(name) if name in names else len(names)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    by_name = {field.title: field for field in FIELDS}
    unknown = [name for name in options.traces if name not in by_name]
    if unknown:
        known = ", ".join(by_name)
        raise InputError(f"unknown trace {unknown[0]!r}; known are {known}", field="--traces")
    names = {contender.label.replace("`", "") for contender in CONTENDERS}
    for name in options.only:
        if name not in names:
            rule = f"unknown contender {name!r}; known are {'; '.join(sorted(names))}"
            raise InputError(rule, field="--only")
    if options.merge is not None:
        if not options.merge.is_file():
            raise InputError("there is no such file", file=str(options.merge), field="--merge")
        write_records([*read_records(options.merge), *read_records(FOLDER / "results.csv")])
    chosen = [by_name[name] for name in options.traces or by_name]
    chosen = [f for f in chosen if f.original is None or find(f.original) is not None]
    done = {record.digest for record in read_records(FOLDER / "results.csv")}
    missing = [
        (field, seed, contender)
        for field, seed, contender, scenario in scenarios(chosen, options.seeds)
        if contender.key(scenario) not in done
        and (not options.only or contender.label.replace("`", "") in options.only)
    ]
    left = len(missing)
    for record in replayed(missing, options.jobs, 60.0 * options.minutes):
        left -= 1
        print(
            f"{record.wall_s:7.1f} s  {record.trace} {record.seed} {record.policy}: "
            f"{record.avg_jct_s:,.0f} s",
            file=sys.stderr,
            flush=True,
        )
        # Read anew each time: another call may have run meanwhile.
        write_records([*read_records(FOLDER / "results.csv"), record])
    write_page()
    if left:
        print(f"{left} replays are left: call it again", file=sys.stderr)
    return 0


def replayed(
    missing: Sequence[tuple[Field, int, Contender]], jobs: int, seconds: float = math.inf
) -> Iterator[Record]:
    """Rows as they are measured, in so many processes; none is begun after so many seconds."""
    began, waiting = time.monotonic(), iter(missing)
    if jobs == 1:
        for one in waiting:
            if time.monotonic() - began > seconds:
                return
            yield measured(*one)
        return
    with ProcessPoolExecutor(jobs) as pool:
        running = {pool.submit(measured, *one) for one in islice(waiting, jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            if time.monotonic() - began <= seconds:
                running |= {pool.submit(measured, *one) for one in islice(waiting, len(done))}
            yield from (one.result() for one in done)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.comparison", description=__doc__)
    ask_traces(parser, ())
    ask_seeds(parser)
    parser.add_argument(
        "--minutes", type=Number(Range(0.0, 1e5)), default=1e5, help="no replay is begun later"
    )
    parser.add_argument(
        "--jobs", type=whole(1, 64), default=1, metavar="N", help="replays at a time (1)"
    )
    parser.add_argument(
        "--merge",
        type=Path,
        metavar="FILE",
        help="take the rows of such a results.csv, made elsewhere",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="a contender by its name in the tables, without marks; repeat for several",
    )
    return parser
