"""A log as most sites keep one: a table with a line per job, whatever its columns are called.

Which column is what is guessed where its name is usual, and said with ``--columns`` where not. A
unit at the end of a name (``duration_min``, ``runtime (h)``) counts, and so does one in brackets
behind a column that is named (``duration=walltime[h]``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from morph_opt.documents import Row
from morph_opt.domain import InputError
from morph_opt.domain.errors import typed
from morph_opt.domain.nearest import did_you_mean, unknown
from morph_opt.traces.logs.reading.clock import elapsed_s
from morph_opt.traces.logs.reading.reader import NOTHING, Head, TableReader, cells_row, gpus_of
from morph_opt.traces.logs.reading.records import Record
from morph_opt.traces.logs.reading.row import LogRow, Outcome, span_s

USUAL: dict[str, tuple[str, str]] = {
    "job": ("jobid job id jobname name", ""),
    "submit": (
        "submit submittime submission submissiontime submitted submittedat submittimestamp "
        "arrival arrivaltime arrived arrivedat queuedat",
        "created createdat creationtime creationtimestamp timestamp time date",
    ),
    "start": ("start starttime started startedat begin begintime", ""),
    "end": ("end endtime ended endedat finish finishtime finished finishedat", "completedat stop"),
    "duration": (
        "duration runtime elapsed elapsedtime servicetime executiontime jobduration run",
        "walltime wallclock",
    ),
    "wait": ("wait waittime waiting waitingtime queuetime queueingtime queuingtime", ""),
    "gpus": (
        "gpus gpu ngpus ngpu numgpus numgpu gpunum gpucount numberofgpus requestedgpus "
        "gpusrequested reqgpus gpurequest allocgpus allocatedgpus gpusallocated",
        "cards accelerators numaccelerators",
    ),
    "gpu_type": ("gputype gpumodel gpukind acceleratortype", ""),
    "nodes": ("nodes nnodes numnodes nodenum nodecount", ""),
    "hosts": ("hosts nodelist nodenames hostnames", ""),
    "user": ("user username userid owner", ""),
    "tenant": ("tenant account project team group queue partition vc namespace organization", ""),
    "model": ("model modelname jobtype application app workload kind type", ""),
    "state": ("state status jobstate jobstatus outcome", ""),
}
"""What a column may be, and the names by which it is known, those that are less telling apart."""

_CLOCKED = ("submit", "start", "end", "duration", "wait")
_ONE_MEANING = (*_CLOCKED, "gpus")
"""Of two columns that may be one of these, none is chosen; of the others, the first name is."""

_UNITS = {
    "ms": 1e-3,
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,12})?", re.ASCII)
_COLUMN_UNIT = re.compile(r"(.+?)(?:\[(\w+)\])?")
_DAYS = re.compile(r"([0-9]{1,6}) days?,? ", re.ASCII)
MILLISECONDS_FROM = 1e11
"""Instants from here on count milliseconds: as seconds they would be of the year 5138."""

_STATES: dict[Outcome, str] = {
    "completed": "completed complete success succeeded successful finished done pass passed ok",
    "failed": "failed failure fail error timeout oom outofmemory nodefail crashed preempted",
    "cancelled": "cancelled canceled killed aborted stopped terminated deleted",
}
_OUTCOMES = {word: outcome for outcome, words in _STATES.items() for word in words.split()}
_RUNNING, _WAITING = ("running", "active"), ("pending", "queued", "waiting", "submitted")


class Column(NamedTuple):
    """A column of the table, and seconds of its unit."""

    name: str
    unit_s: float = 1.0


def columns_of(header: Sequence[str], asked: str | None) -> dict[str, Column]:
    """What each column is, by the keys of `USUAL`.

    Parameters
    ----------
    header
        Names of the columns.
    asked
        ``WHAT=COLUMN,...`` for what is not to be guessed; nothing behind ``=`` is no column.

    Raises
    ------
    InputError
        If there is no such column, two can be the same thing, or submission, GPUs or run time are
        missing.
    """
    found: dict[str, Column] = {}
    named = _named(header, asked) if asked else {}
    for what, words in USUAL.items():
        if what in named:
            found |= {} if named[what] is None else {what: named[what]}  # type: ignore[dict-item]
            continue
        for tier in words:
            usual = tier.split()
            fitting = [one for one in header if _plain(one, what)[0] in usual]
            if len(fitting) > 1 and what in _ONE_MEANING:
                option = typed("--columns")
                rule = f"can be {' or '.join(fitting)}: say which with {option} {what}=COLUMN"
                raise InputError(rule, field=what)
            if fitting:
                best = min(fitting, key=lambda one: usual.index(_plain(one, what)[0]))
                found[what] = Column(best, _plain(best, what)[1])
                break
    missing = [what for what in ("submit", "gpus") if what not in found]
    if not {"duration", "end"} & set(found):
        missing.append("duration")
    if not any(header):
        raise InputError(f"has no header, which needs {', '.join(missing)}")
    if missing:
        has = ", ".join(header)
        rule = (
            f"no column is known as {' or as '.join(missing)}: the header has {has}; "
            f"name them with {typed('--columns')} {','.join(f'{what}=COLUMN' for what in missing)}"
        )
        if "duration" in missing:
            rule += ", or end=COLUMN for a duration"
        raise InputError(rule)
    return found


def _named(header: Sequence[str], asked: str) -> dict[str, Column | None]:
    """What the user says."""
    found: dict[str, Column | None] = {}
    for item in asked.split(","):
        what, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise InputError(f"must be WHAT=COLUMN,..., got {item!r}", field="columns")
        if what not in USUAL:
            raise InputError(unknown("column", what, USUAL), field="columns")
        if what in found:
            raise InputError(f"names {what} twice", field="columns")
        if not text:
            found[what] = None
            continue
        parts = (text, None) if text in header else _COLUMN_UNIT.fullmatch(text).groups()  # type: ignore[union-attr]
        column, unit = parts
        if column not in header:
            rule = f"no column {column!r}{did_you_mean(str(column), header)}; the header has "
            raise InputError(rule + ", ".join(header), field="columns")
        if unit is not None and (unit not in _UNITS or what not in _CLOCKED):
            raise InputError(
                f"unknown unit of {what}: {unit!r}; known are {', '.join(_UNITS)}", field="columns"
            )
        found[what] = Column(column, _plain(column, what)[1] if unit is None else _UNITS[unit])
    return found


def _plain(name: str, what: str) -> tuple[str, float]:
    """Letters of a name in lower case; of times without a unit at the end, and its seconds.

    A column that is called ``hours`` counts hours, whatever it is taken for.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if what in _CLOCKED and words and words[-1] in _UNITS:
        return "".join(words[:-1]), _UNITS[words[-1]]
    return "".join(words), 1.0


class OwnTableReader(TableReader):
    """Reads any table with a line per job that tells submission, GPUs and run time.

    Derive from it with ``columns`` set for a format of one's own.
    """

    name, zone = "table", "UTC"
    dates_or_seconds = True
    options = ("columns",)
    separators = ("\t", ";", "|", ",")
    columns: ClassVar[str] = ""
    """``WHAT=COLUMN,...`` where the user says nothing."""
    statuses: ClassVar[Mapping[str, Outcome]] = _OUTCOMES
    _columns: dict[str, Column]

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """By columns that can be guessed."""
        columns_of(cls.split(head.line), cls.columns)
        return {}

    def _header(self, cells: list[str], file: str, line: int) -> list[str]:
        header = super()._header(cells, file, line)
        try:
            self._columns = columns_of(header, self.how.columns or self.columns)
        except InputError as error:
            if error.field == "columns":  # what is wrong is the option
                raise
            raise error.located(file=file, line=line) from None
        # Without ids, identical lines are different jobs.
        self.ids = "job" in self._columns  # type: ignore[misc]
        return header

    def assumed(self) -> list[str]:
        """Which column is what, and what a run time is."""
        known = self._columns if hasattr(self, "_columns") else {}
        if not known:
            return super().assumed()
        named = [
            f"{what}={one.name}" + ("" if one.unit_s == 1.0 else f" in units of {one.unit_s:g} s")
            for what, one in known.items()
        ]
        found = ["columns are " + ", ".join(named)]
        if "duration" not in known and not {"start", "wait"} & set(known):
            found.append("run time is end - submit, which contains the queueing")
        return found + super().assumed()

    def row(self, record: Record) -> LogRow:
        """The job of a line."""
        row = cells_row(record)
        submit_s, start_s, end_s = (self._instant(row, one) for one in ("submit", "start", "end"))
        if submit_s is None:
            raise row.error(self._columns["submit"].name, "must not be empty: it is the submission")
        recorded_s, wait_s = self._span(row, "duration"), self._span(row, "wait")
        if start_s is None and wait_s is not None:
            start_s = submit_s + wait_s
        if start_s is None and end_s is not None:
            start_s = submit_s if recorded_s is None else end_s - recorded_s
        between_s = span_s(start_s, end_s)
        run_s = recorded_s if between_s is None else between_s
        if end_s is None and start_s is not None and run_s is not None:
            end_s = start_s + run_s
        status = self._text(row, "state")
        word = "".join(_WORD.findall(status.upper())).lower()
        if word in _WAITING:
            self.reasons.append("not-started")
        elif word in _RUNNING:
            self.reasons.append("still-running")
        gpus = 0 if self._text(row, "gpus") in NOTHING else gpus_of(row, self._columns["gpus"].name)
        nodes = self._text(row, "nodes")
        found = LogRow(
            self._text(row, "job") or f"line-{row.line}",
            row.line,
            submit_s,
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            recorded_s=recorded_s,
            gpus=gpus,
            gpu_type=self._text(row, "gpu_type") or None,
            nodes=int(nodes) if nodes.isascii() and nodes.isdigit() else None,
            status=status,
            outcome=self.statuses.get(word, "unknown"),
            tenant=self._text(row, "tenant"),
            user=self._text(row, "user"),
            kind=self._text(row, "model") or None,
            hosts=self._text(row, "hosts") or None,
        )
        self.compare(found, wait_s)
        return found

    def _text(self, row: Row, what: str) -> str:
        """The cell of a column; "" where the table has none."""
        column = self._columns.get(what)
        return "" if column is None else row.cells[column.name]

    def _instant(self, row: Row, what: str) -> float | None:
        """Seconds of a date or a number; None for what stands for nothing."""
        text = self._text(row, what)
        if text in NOTHING:
            return None
        column = self._columns[what]
        if not _NUMBER.fullmatch(text):
            return self._clocked(text.replace("/", "-"), row, column.name)
        value = float(text) * column.unit_s
        return value / 1000.0 if value >= MILLISECONDS_FROM else value

    def _span(self, row: Row, what: str) -> float | None:
        """Seconds of a number, or of ``1-02:03:04`` and the like; None for nothing."""
        text = self._text(row, what)
        if text in NOTHING:
            return None
        column = self._columns[what]
        if _NUMBER.fullmatch(text):
            return float(text) * column.unit_s
        try:
            return elapsed_s(_DAYS.sub(r"\1-", text))
        except InputError as error:
            raise row.error(column.name, f"{error.rule}, or a number") from None
