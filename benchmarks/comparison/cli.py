"""The grand comparison: policies on traces, what they may change and know, paired over twins.

    python -m benchmarks.comparison [--traces base,mt] [--seeds 0,1] [--minutes 15]

Every replay is a row of ``reports/comparison/results.csv``, by the digest of its scenario; rows
that are there are not run again, so that the command may be interrupted, or given minutes, and
goes on where it ended. ``reports/comparison/README.md`` is made of the rows alone.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.comparison.page import Record, page
from morph_opt.commandline import LineParser, Number, run_command
from morph_opt.data.store import find
from morph_opt.documents import read_rows, write_atomically
from morph_opt.domain import InputError, Range
from morph_opt.replay.scenario import Scenario

FOLDER = Path("reports/comparison")


@dataclass(frozen=True, slots=True)
class Contender:
    """Who is compared.

    Parameters
    ----------
    label
        In the tables.
    policy, objective
        As the replay takes them.
    may_change_gpus
        Whether it gives a running job another number of GPUs.
    knows_durations
        Whether it is told how much of a job is left.
    artifact_quirks
        As the published code decides.
    durations
        What it is told of the work that is left: ``true``, or ``blind``.
    one_type
        Whether it refuses clusters of several node types.
    """

    label: str
    policy: str
    objective: str = "throughput"
    may_change_gpus: bool = True
    knows_durations: bool = False
    artifact_quirks: bool = False
    one_type: bool = False
    durations: str = "true"


CONTENDERS = (
    Contender("MILP `lookahead`", "milp", "lookahead", knows_durations=True),
    Contender("MILP `jct`", "milp", "jct", knows_durations=True),
    Contender("MILP `throughput`", "milp", "throughput"),
    Contender("MILP `jct-blind`", "milp", "jct-blind"),
    Contender("`greedy:jct`", "greedy:jct", knows_durations=True),
    Contender("`greedy:jct`, blind", "greedy:jct", durations="blind"),
    Contender("`greedy:throughput`", "greedy:throughput"),
    Contender("`optimus`", "optimus", knows_durations=True),
    Contender("`optimus`, blind", "optimus", durations="blind"),
    Contender("`sia`", "sia"),
    Contender("`pollux:counts`", "pollux:counts", one_type=True),
    Contender("`morphling`", "morphling"),
    Contender("`equal_split`", "equal_split"),
    Contender("`srtf`", "srtf", may_change_gpus=False, knows_durations=True),
    Contender("`srtf`, blind", "srtf", may_change_gpus=False, durations="blind"),
    Contender("`fifo:skip`", "fifo:skip", may_change_gpus=False),
    Contender("`tiresias:2d-las`", "tiresias:2d-las", may_change_gpus=False),
    Contender("`morphling`, quirks", "morphling", artifact_quirks=True),
    Contender("`pollux`", "pollux", one_type=True),
)
SLOW = {"`morphling`, quirks": ("naive", "base"), "`pollux`": ("naive",)}
"""Contenders that take minutes to hours a replay, and the traces on which they are run."""


@dataclass(frozen=True, slots=True)
class Field:
    """A trace.

    Parameters
    ----------
    name
        As the replay takes it.
    seeds
        Members that the command runs unless told otherwise; one for an original.
    interval_s
        Length of a round.
    types
        Whether its home has several GPU types.
    """

    name: str
    seeds: tuple[int, ...]
    interval_s: float = 60.0
    types: bool = False

    @property
    def original(self) -> bool:
        """Whether it is read from public data."""
        return "/" in self.name


TWINS = (0, 1, 2, 3, 4, 5)
FIELDS = (
    Field("naive", TWINS),
    Field("base", TWINS),
    Field("mt", TWINS),
    Field("morphling/naive", (0,)),
    Field("morphling/base", (0,)),
    Field("morphling/bp", (0,)),
    Field("morphling/mt", (0,)),
    Field("gavel-96", TWINS, 360.0, types=True),
    Field("tiresias-480", TWINS),
)


def takes_part(who: Contender, field: Field) -> bool:
    """Whether a contender is run on a trace."""
    short = field.name.rpartition("/")[2]
    return not (who.one_type and field.types) and short in SLOW.get(who.label, (short,))


def scenarios(
    chosen: Sequence[Field], seeds: Sequence[int] | None, slow: bool = True
) -> Iterator[tuple[Field, int, Contender, Scenario]]:
    """All replays, trace by trace and seed by seed."""
    for field in chosen:
        wanted = field.seeds if seeds is None or field.original else tuple(seeds)
        for seed in wanted:
            for who in CONTENDERS:
                if not takes_part(who, field) or (who.label in SLOW and not slow):
                    continue
                scenario = Scenario(
                    field.name, policy=who.policy, objective=who.objective, seed=seed
                ).replaced(
                    interval_s=field.interval_s,
                    artifact_quirks=who.artifact_quirks,
                    durations=who.durations,
                    skip_impossible=True,
                )
                yield field, seed, who, scenario


def measured(field: Field, seed: int, who: Contender, scenario: Scenario) -> Record:
    """Replay, and keep what the tables show."""
    began = time.perf_counter()
    summary = scenario.run().summary.values

    def number(name: str) -> float:
        value = summary.get(name)
        return float("nan") if value is None else float(value)

    return Record(
        digest=scenario.digest[:16],
        trace=field.name,
        seed=seed,
        policy=who.label,
        may_change_gpus=int(who.may_change_gpus),
        knows_durations=int(who.knows_durations),
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
        bound_s=number("avg_jct_lower_bound_s"),
        wall_s=time.perf_counter() - began,
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
    """All rows, and the page made of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(field.name for field in fields(Record))
    writer.writerows(map(_cell, asdict(record).values()) for record in records)
    write_atomically(FOLDER / "results.csv", buffer.getvalue())
    write_atomically(FOLDER / "README.md", page(records, [who.label for who in CONTENDERS]))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(make_parser(), _run, arguments)


def _run(options: argparse.Namespace) -> int:
    by_name = {field.name: field for field in FIELDS}
    unknown = [name for name in options.traces if name not in by_name]
    if unknown:
        known = ", ".join(by_name)
        raise InputError(f"unknown trace {unknown[0]!r}; known are {known}", field="--traces")
    chosen = [by_name[name] for name in options.traces or by_name]
    chosen = [field for field in chosen if not field.original or find("morphling") is not None]
    records = read_records(FOLDER / "results.csv")
    known = {record.digest for record in records}
    began = time.monotonic()
    left = 0
    for field, seed, who, scenario in scenarios(chosen, options.seeds, options.slow):
        name = who.label.replace("`", "")
        if scenario.digest[:16] in known or (options.only and name not in options.only):
            continue
        if time.monotonic() - began > 60.0 * options.minutes:
            left += 1
            continue
        record = measured(field, seed, who, scenario)
        print(f"{record.wall_s:7.1f} s  {field.name} {seed} {who.label}: {record.avg_jct_s:,.0f} s",
              file=sys.stderr, flush=True)  # fmt: skip
        records.append(record)
        write_records(records)
    write_records(records)
    if left:
        print(f"{left} replays are left: call it again", file=sys.stderr)
    return 0


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.comparison", description=__doc__)
    parser.add_argument(
        "--traces", type=lambda text: text.split(","), default=[], metavar="NAME,..."
    )
    parser.add_argument("--seeds", type=lambda text: [int(n) for n in text.split(",")],
                        default=None, metavar="N,...", help="of twins (0 to 5)")  # fmt: skip
    parser.add_argument("--minutes", type=Number(Range(0.0, 1e5)), default=1e5,
                        help="no replay is begun later")  # fmt: skip
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="NAME,...",
                        help="contenders by their names in the tables, without marks")  # fmt: skip
    parser.add_argument("--slow", action=argparse.BooleanOptionalAction, default=True,
                        help="contenders that take minutes a replay")  # fmt: skip
    return parser
