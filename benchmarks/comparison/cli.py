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
import hashlib
import io
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path

from benchmarks.comparison.page import page
from benchmarks.comparison.records import Record
from morph_opt.commandline import LineParser, Number, run_command
from morph_opt.data.store import find
from morph_opt.documents import read_rows, write_atomically
from morph_opt.domain import InputError, Range
from morph_opt.replay.scenario import Scenario
from morph_opt.sweep.cell import sources_digest

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
        Whether it is told how much of a job is left, rightly or not.
    durations
        What it is told of the work that is left, as the replay takes it.
    promises, artifact_quirks
        As the replay takes them.
    one_type
        Whether it refuses clusters of several node types.
    core
        Whether it is run on traces that show few.
    only
        Names of the traces on which it is run, without a folder; empty for all.
    twins
        Of how many twins of a trace at most.
    """

    label: str
    policy: str
    objective: str = "throughput"
    may_change_gpus: bool = True
    knows_durations: bool = False
    durations: str = "true"
    promises: str = "rank"
    artifact_quirks: bool = False
    one_type: bool = False
    core: bool = False
    only: tuple[str, ...] = ()
    twins: int = 99

    @property
    def knows(self) -> str:
        """Whether it knows durations, in the words of the tables."""
        word, _, sigma = self.durations.partition(":")
        return f"sigma {sigma}" if word == "noisy" else "yes" if self.knows_durations else "no"

    @property
    def guesses(self) -> bool:
        """Whether it goes by guesses of the work that is left."""
        return self.durations == "blind" or self.objective == "jct-blind"

    def key(self, scenario: Scenario) -> str:
        """What a row is known by: the scenario, and how work left is guessed where it is."""
        if not self.guesses:
            return scenario.digest[:16]
        return hashlib.sha256(f"{scenario.digest}/{GUESS}".encode()).hexdigest()[:16]


GUESS = "lognormal"
"""Of `morph_opt.policies.blind.Learnt`; to be changed with it, and rows of another are dropped."""


def _told(contender: Contender, *durations: str) -> Iterator[Contender]:
    """A contender that knows durations, and the same told otherwise."""
    yield contender
    for told in durations:
        word, _, sigma = told.partition(":")
        label = f"{contender.label}, {'blind' if word == 'blind' else f'sigma {sigma}'}"
        knows = word == "noisy"
        yield replace(contender, label=label, durations=told, knows_durations=knows, core=False)


CALIBRATED = ("naive", "base", "bp", "mt")
"""Traces whose jobs may run on any number of GPUs."""

CONTENDERS = (
    *_told(Contender("MILP `lookahead`", "milp", "lookahead", knows_durations=True, core=True),
           "noisy:0.7"),
    Contender("MILP `lookahead`, weighted promises", "milp", "lookahead", knows_durations=True,
              promises="weight", core=True, only=("mt",)),
    *_told(Contender("`greedy:lookahead`", "greedy:lookahead", knows_durations=True, core=True),
           "noisy:0.7", "blind"),
    Contender("MILP `jct`", "milp", "jct", knows_durations=True),
    *_told(Contender("`greedy:jct`", "greedy:jct", knows_durations=True), "noisy:0.7", "blind"),
    Contender("MILP `jct-blind`", "milp", "jct-blind", core=True),
    *_told(Contender("`srtf`", "srtf", may_change_gpus=False, knows_durations=True, core=True),
           "noisy:0.7", "blind"),
    Contender("`allox`", "allox", may_change_gpus=False, knows_durations=True, core=True),
    *_told(Contender("`optimus`", "optimus", knows_durations=True), "noisy:0.7", "blind"),
    Contender("`sia`", "sia", core=True),
    Contender("`pollux:counts`", "pollux:counts", one_type=True),
    Contender("`morphling`", "morphling"),
    Contender("`greedy:throughput`", "greedy:throughput"),
    Contender("`equal_split`", "equal_split", core=True),
    Contender("`fifo:skip`", "fifo:skip", may_change_gpus=False, core=True),
    Contender("`tiresias:2d-las`", "tiresias:2d-las", may_change_gpus=False),
    Contender("`gavel:fairness`", "gavel:fairness", may_change_gpus=False, only=("gavel-96",)),
    Contender("`gavel:max_throughput`", "gavel:max_throughput", may_change_gpus=False,
              only=("gavel-96",)),
    Contender("`gavel:isolated`", "gavel:isolated", may_change_gpus=False, only=("gavel-96",)),
    Contender("MILP `throughput`", "milp", twins=2),
    Contender("MILP `makespan`", "milp", "makespan", knows_durations=True, twins=1,
              only=CALIBRATED),
    Contender("`morphling`, quirks", "morphling", artifact_quirks=True, only=("naive",),
              twins=1),
    Contender("`pollux`", "pollux", one_type=True, only=("naive",), twins=1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A trace.

    Parameters
    ----------
    name
        As the replay takes it.
    interval_s
        Length of a round.
    types
        Whether its home has several GPU types.
    whole
        Whether all contenders are run on it, or the core of them.
    """

    name: str
    interval_s: float = 60.0
    types: bool = False
    whole: bool = True

    @property
    def original(self) -> bool:
        """Whether it is read from public data."""
        return "/" in self.name


TWINS = (0, 1, 2, 3, 4)
FIELDS = (
    Field("base"),
    Field("gavel-96", 360.0, types=True),
    Field("mt", whole=False),
    Field("morphling/base"),
    Field("bp", whole=False),
    Field("tiresias-480", whole=False),
    Field("naive"),
    Field("morphling/mt", whole=False),
    Field("morphling/bp", whole=False),
    Field("morphling/naive"),
)


def takes_part(who: Contender, field: Field, seed: int = 0) -> bool:
    """Whether a contender is run on a trace."""
    short = field.name.rpartition("/")[2]
    possible = not (who.one_type and field.types) and (not who.only or short in who.only)
    return possible and seed < who.twins and (field.whole or who.core)


def scenarios(
    chosen: Sequence[Field], seeds: Sequence[int]
) -> Iterator[tuple[Field, int, Contender, Scenario]]:
    """All replays, seed by seed, so that what is cut short has whole sets of pairs."""
    for place, seed in enumerate(seeds):
        for field in chosen:
            if field.original and place:
                continue
            number = 0 if field.original else seed
            for who in CONTENDERS:
                if takes_part(who, field, number):
                    yield field, number, who, scenario_of(field, number, who)


def scenario_of(field: Field, seed: int, who: Contender) -> Scenario:
    """What is replayed."""
    return Scenario(field.name, policy=who.policy, objective=who.objective, seed=seed).replaced(
        interval_s=field.interval_s,
        artifact_quirks=who.artifact_quirks,
        durations=who.durations,
        promises=who.promises,
        skip_impossible=True,
    )


def measured(field: Field, seed: int, who: Contender, scenario: Scenario) -> Record:
    """Replay, and keep what the tables show."""
    began = time.perf_counter()
    summary = scenario.run().summary.values

    def number(name: str) -> float:
        value = summary.get(name)
        return float("nan") if value is None else float(value)

    return Record(
        digest=who.key(scenario),
        code=sources_digest()[:8],
        trace=field.name,
        seed=seed,
        policy=who.label,
        may_change_gpus=int(who.may_change_gpus),
        knows=who.knows,
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
    """All rows, in the order of traces, seeds and contenders, and the page made of them.

    Of several of one policy on the same jobs, as calls at a time and older versions of the sources
    may make them, the last whose scenario is that of today, or the last. Those that go by guesses
    made otherwise than today are dropped.
    """
    order = [who.label for who in CONTENDERS]
    names = [field.name for field in FIELDS]
    guess = {who.label for who in CONTENDERS if who.guesses}
    rising = sorted((r for r in records if _of_today(r) or r.policy not in guess), key=_of_today)
    records = sorted(
        {(record.trace, record.seed, record.policy): record for record in rising}.values(),
        key=lambda r: (_place(names, r.trace), r.seed, _place(order, r.policy), r.digest),
    )
    FOLDER.mkdir(parents=True, exist_ok=True)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(field.name for field in fields(Record))
    writer.writerows(map(_cell, asdict(record).values()) for record in records)
    write_atomically(FOLDER / "results.csv", buffer.getvalue())
    write_atomically(FOLDER / "README.md", page(records, order, hindsight()))


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
    field = next((field for field in FIELDS if field.name == trace), None)
    who = next((who for who in CONTENDERS if who.label == policy), None)
    return "" if field is None or who is None else who.key(scenario_of(field, seed, who))


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
    by_name = {field.name: field for field in FIELDS}
    unknown = [name for name in options.traces if name not in by_name]
    if unknown:
        known = ", ".join(by_name)
        raise InputError(f"unknown trace {unknown[0]!r}; known are {known}", field="--traces")
    names = {who.label.replace("`", "") for who in CONTENDERS}
    for name in options.only:
        if name not in names:
            rule = f"unknown contender {name!r}; known are {'; '.join(sorted(names))}"
            raise InputError(rule, field="--only")
    chosen = [by_name[name] for name in options.traces or by_name]
    chosen = [field for field in chosen if not field.original or find("morphling") is not None]
    if options.merge is not None:
        if not options.merge.is_file():
            raise InputError("there is no such file", file=str(options.merge), field="--merge")
        write_records([*read_records(options.merge), *read_records(FOLDER / "results.csv")])
    began, left = time.monotonic(), 0
    for field, seed, who, scenario in scenarios(chosen, options.seeds):
        name = who.label.replace("`", "")
        # Read anew each time: another call may have run meanwhile.
        done = {record.digest for record in read_records(FOLDER / "results.csv")}
        if who.key(scenario) in done or (options.only and name not in options.only):
            continue
        if time.monotonic() - began > 60.0 * options.minutes:
            left += 1
            continue
        record = measured(field, seed, who, scenario)
        print(f"{record.wall_s:7.1f} s  {field.name} {seed} {who.label}: {record.avg_jct_s:,.0f} s",
              file=sys.stderr, flush=True)  # fmt: skip
        write_records([*read_records(FOLDER / "results.csv"), record])
    write_records(read_records(FOLDER / "results.csv"))
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
                        default=list(TWINS), metavar="N,...", help="of twins (0 to 4)")  # fmt: skip
    parser.add_argument("--minutes", type=Number(Range(0.0, 1e5)), default=1e5,
                        help="no replay is begun later")  # fmt: skip
    parser.add_argument("--merge", type=Path, metavar="FILE",
                        help="take the rows of such a results.csv, made elsewhere")  # fmt: skip
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="a contender by its name in the tables, without marks; repeat for "
                        "several")  # fmt: skip
    return parser
