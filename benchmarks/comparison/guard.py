"""The guard: on twins that nobody has seen no policy that knows no more is ahead of ``auto``.

    python -m benchmarks.comparison.guard [--date 2026-11-22] [--traces base,naive] [--jobs 2]

Five twins of each trace are drawn by the date, so that nothing can have been fitted to them; every
contender of the comparison that may run there is replayed. Exit status 1 where `auto` is behind by
more than 1 % in the geometric mean with a paired 95 % interval above 1; the table of the run is
``never-beaten.md`` of the comparison. A call on the same date goes on where it ended.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparison.cli import FOLDER, read_records, replayed, rows_text
from benchmarks.comparison.contenders import FIELDS, ask_traces, scenarios
from benchmarks.comparison.records import KNOWLEDGE, Lead, Record, interval, leads
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import as_process, run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.documents import write_atomically
from morph_opt.core.domain import InputError
from morph_opt.core.table import Table

TRACES = ("base", "gavel-96")
"""Where nothing else is said: one on which plans matter, one on which GPU types do."""
COUNT = 5
"""Twins of a trace."""


def seeds_of(date: datetime.date) -> list[int]:
    """Seeds of the twins of a day; none of another day, none that the comparison has."""
    return [10 * int(date.strftime("%Y%m%d")) + number for number in range(COUNT)]


def judged(records: Sequence[Record]) -> list[Lead]:
    """Leads that are shown: those for which the guard fails."""
    return [lead for lead in leads(records) if lead.shown]


def table(records: Sequence[Record], date: datetime.date) -> str:
    """What the guard saw: by trace and knowledge the policy that came nearest, or is ahead."""
    rows = []
    every = leads(records)
    for trace in dict.fromkeys(lead.trace for lead in every):
        for knows, (_, words) in KNOWLEDGE.items():
            mine = [lead for lead in every if (lead.trace, lead.knows) == (trace, knows)]
            if not mine:
                continue
            nearest = max(mine, key=lambda lead: interval(lead.ratios)[0])
            ahead = [lead.policy for lead in mine if lead.shown]
            rows.append(
                (
                    f"`{trace}`",
                    words,
                    len(mine),
                    nearest.policy,
                    len(nearest.ratios),
                    *interval(nearest.ratios),
                    ", ".join(ahead) or "none",
                )
            )
    header = (
        "trace",
        "knowledge",
        "policies",
        "nearest",
        "pairs",
        "`auto` over it",
        "from",
        "to",
        "ahead of `auto`",
    )
    specs = dict.fromkeys(("`auto` over it", "from", "to"), ".3f")
    seeds = seeds_of(date)
    text = Table(header, rows, "llrlrrrrl", specs).to_markdown()
    return f"Of {date.isoformat()}, seeds {seeds[0]} to {seeds[-1]}:\n\n{text}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(make_parser(), _run, arguments)


def make_parser() -> LineParser:
    """The parser."""
    parser = LineParser(prog="python -m benchmarks.comparison.guard", description=__doc__)
    parser.add_argument("--date", metavar="YYYY-MM-DD", help="that draws the twins (today)")
    ask_traces(parser, TRACES)
    parser.add_argument(
        "--jobs", type=whole(1, 64), default=1, metavar="N", help="replays at a time (1)"
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help=f"({FOLDER})")
    return parser


def _run(options: argparse.Namespace) -> int:
    try:
        today = datetime.datetime.now(datetime.UTC).date()
        date = datetime.date.fromisoformat(options.date) if options.date else today
    except ValueError as error:
        raise InputError(f"must be YYYY-MM-DD: {error}", field="--date") from error
    by_name = {field.title: field for field in FIELDS if field.original is None}
    for name in options.traces:
        if name not in by_name:
            rule = f"unknown trace {name!r}; known are {', '.join(by_name)}"
            raise InputError(rule, field="--traces")
    file = options.out / "never-beaten.csv"
    wanted = [
        (field, seed, contender, contender.key(scenario))
        for field, seed, contender, scenario in scenarios(
            [by_name[name] for name in options.traces], seeds_of(date)
        )
        if not contender.expensive
    ]
    keys = {key for *_, key in wanted}
    records = [record for record in read_records(file) if record.digest in keys]
    done = {record.digest for record in records}
    missing = [
        (field, seed, contender) for field, seed, contender, key in wanted if key not in done
    ]
    for record in replayed(missing, options.jobs):
        records.append(record)
        write_atomically(file, rows_text(records))
    found = judged(records)
    write_atomically(options.out / "never-beaten.md", table(records, date))
    for lead in found:
        centre, low, high = interval(lead.ratios)
        times = f"{centre:.3f} [{low:.3f} to {high:.3f}; {len(lead.ratios)} pairs] times"
        words = f"{lead.trace}, {KNOWLEDGE[lead.knows][1]}"
        print(f"{words}: auto has {times} the average JCT of {lead.policy}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(as_process(main))
