"""Base classes of log formats: records in, rows out; `Scan` does everything else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

from morph_opt.core.documents import Fields, Row
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.reading.clock import Clock, epoch_s, is_unset
from morph_opt.inputs.traces.logs.reading.quantities import fraction_of, number_of
from morph_opt.inputs.traces.logs.reading.records import (
    Record,
    cells_of,
    json_records,
    require_header,
    table_lines,
)
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import Gpus, LogRow, Outcome, Reading, span_s

_UNNAMED = "(unnamed"
_EVERYWHERE = ("gpu_shares", "malformed", "only", "window")
"""Fields of `Reading` that every format knows."""
MOST_GPUS = 10**9
ROUNDED_S = 0.5
"""Largest difference, in seconds, that rounding of recorded durations explains."""


@dataclass(frozen=True, slots=True)
class Head:
    """Beginning of a log, by which its format is guessed.

    Parameters
    ----------
    line
        First line that is no comment.
    keys
        Members of a JSON document that is an object.
    entry
        First element of the list that it is, or has under ``items``.
    files
        Names in a folder, where that is what was named.
    """

    line: str = ""
    keys: frozenset[str] = frozenset()
    entry: Mapping[str, object] = field(default_factory=dict)
    files: frozenset[str] = frozenset()


class Reader(ABC):
    """Log format: turns records of a log into rows, and states what such logs are like.

    Parameters
    ----------
    path, how
        The log, and how it is read, if it does not state that itself.
    clock
        Clock of its times.
    report
        Report for findings about the whole file.

    Attributes
    ----------
    name
        Word before a path.
    zone
        Zone of times that name none; None where times are numbers of seconds.
    options, needed
        Fields of `Reading` that it knows in addition to the common ones; fields without which its
        jobs cannot be replayed.
    dates_or_seconds
        Whether times may be either, as each log has them.
    relative
        Whether its clock counts from a 0 that means something; others count from the first job.
    ids
        Whether its rows have ids, so that identical ones are the same row twice.
    durations
        Whether it states how long jobs ran.
    folds
        Whether several rows may be one job.
    published
        Row counts of the published traces of this format.
    taken
        Assumptions about every such log, in sentences.
    reasons
        Reasons of the format why the current row is no job, in any order.
    unsized
        Whether the log does not state how many GPUs it asked for.
    findings
        Oddities of the row; counted if it becomes a job.
    """

    name: ClassVar[str] = "own"
    zone: ClassVar[str | None] = None
    options: ClassVar[tuple[str, ...]] = ()
    needed: ClassVar[tuple[str, ...]] = ()
    dates_or_seconds: ClassVar[bool] = False
    relative: ClassVar[bool] = False
    ids: ClassVar[bool] = True
    durations: ClassVar[bool] = True
    folds: ClassVar[bool] = False
    published: ClassVar[tuple[int, ...]] = ()
    data_files: ClassVar[Mapping[str, str]] = {}
    """Files of the data set of this name, below its root, by the argument of the trace."""
    home: ClassVar[str | None] = None
    """Short form of the cluster of those logs; None if it is not known."""
    taken: ClassVar[tuple[str, ...]] = ()
    statuses: ClassVar[Mapping[str, Outcome]] = {}
    """Outcome of each status of the format."""

    marks: ClassVar[frozenset[str]] = frozenset()
    """Columns or keys by which the format is known."""

    def __init__(self, path: Path, how: Reading, clock: Clock, report: Report) -> None:
        self.path = path
        self.how = how
        self.clock = clock
        self.report = report
        self.reasons: list[str] = []
        self.unsized = False
        self.findings: list[tuple[str, dict[str, float | str]]] = []
        self.complain: Callable[[InputError], None] = _raised
        """Function that receives a malformed row of a further file."""

    @classmethod
    def understood(cls, how: Reading) -> Reading:
        """Return how to read, if the format knows every option that is given.

        Raises
        ------
        InputError
            Naming the option.
        """
        known = (*cls.options, *_EVERYWHERE, *(("timezone",) if cls.zone else ()))
        for name in how.given():
            if name not in known:
                raise InputError(f"has no effect on format {cls.name}", field=name)
        return how

    @classmethod
    @abstractmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Return the options that a log with this head needs; None if it is of another format."""

    @abstractmethod
    def records(self) -> Iterator[Record]:
        """Yield the rows of the file, from the beginning."""

    @abstractmethod
    def row(self, record: Record) -> LogRow:
        """Return the row of a record, and fill `reasons` and `findings`.

        Raises
        ------
        InputError
            If it is malformed.
        """

    def files(self) -> Sequence[Path]:
        """Return the files that are read."""
        return (self.path,)

    def name_of(self, record: Record) -> str:
        """Return the name of a record's row alone, for formats that fold."""
        raise NotImplementedError

    def group(self, name: str) -> tuple[str, str]:
        """Return job and component that a row of this name belongs to."""
        return name, ""

    def key_of(self, record: Record) -> str:
        """Return the identity of the job of a record, for formats that fold."""
        return self.group(self.name_of(record))[0]

    def reused_after_s(self, row: LogRow) -> float:  # noqa: ARG002 - most never repeat an id
        """Return the seconds after a row's end from which its id is another job's."""
        return math.inf

    def finish(self) -> None:  # noqa: B027 - most formats have nothing to say
        """Add findings about the whole file, after its last row."""

    def assumed(self) -> list[str]:
        """Return what was assumed of the log, after its last row."""
        found = list(self.taken)
        if "naive-time" in self.report.findings:
            found.append(f"times without a zone are of {self.clock.zone}")
        if "procs_per_gpu" in self.options and self.how.procs_per_gpu is None:
            found.append("one processor stands for one GPU (--procs-per-gpu)")
        if self.how.gpu_shares == "round-up":
            found.append("a share of a GPU is a whole one")
        return found

    # ------------------------------------------------------------ parts of rows

    def find(self, code: str, **details: float | str) -> None:
        """Note an oddity of the row."""
        self.findings.append((code, details))

    def outcome(self, status: str) -> Outcome:
        """Return the outcome of a status; an unknown one is a reason to drop the row."""
        if status in self.statuses:
            return self.statuses[status]
        self.reasons.append("unknown-status")
        return "unknown"

    def seconds(self, row: Row | Fields, field: str) -> float:
        """Return an absolute time of a cell, or of a field of an object."""
        return self._clocked(row.text(field), row, field)

    def seconds_or_none(self, row: Row, field: str, submit_s: float | None = None) -> float | None:
        """Return an absolute time of a cell; None for no time.

        With the submission, 0, -1, 1970 and the largest numbers of a field are no times either.
        """
        text = row.cells.get(field, "")
        if is_nothing(text):
            return None
        value = None if submit_s is None else number_of(text)
        if value is not None and self.set_or_none(epoch_s(value), submit_s) is None:
            return None
        return self.set_or_none(self._clocked(text, row, field), submit_s)

    def set_or_none(self, instant_s: float, submit_s: float | None) -> float | None:
        """Return an instant; None, with a note, if it means "no time"."""
        if submit_s is None or not is_unset(instant_s, submit_s):
            return instant_s
        self.find("unset-times")
        return None

    def _clocked(self, text: str, row: Row | Fields, field: str) -> float:
        return row.built(lambda: self.clock.seconds(text), field)

    def processors(self, count: int) -> Gpus:
        """Return the GPUs of a number of processors."""
        each = self.how.procs_per_gpu or 1
        return whole_if(Fraction(count, each))

    def ran_s(
        self, start_s: float | None, end_s: float | None, *, waits: bool = False, runs: bool = False
    ) -> float | None:
        """Return the run time; note a job that has not started or still runs."""
        if waits or start_s is None:
            self.reasons.append("not-started")
        elif runs or end_s is None:
            self.reasons.append("still-running")
        return span_s(start_s, end_s)

    def compare(self, row: LogRow, recorded_queue_s: float | None = None) -> None:
        """Compare recorded quantities with those that follow from times, and with the limit."""
        run_s, start_s, end_s = row.run_s, row.start_s, row.end_s
        if row.limit_s is not None and run_s is not None and run_s > row.limit_s:
            self.find("over-time-limit")
        if start_s is not None and start_s < row.submit_s:
            self.find("start-before-submit", worst=row.submit_s - start_s)
        if start_s is None or end_s is None or run_s is None:
            return
        if row.recorded_s is not None and abs(row.recorded_s - run_s) > ROUNDED_S:
            whole = abs(row.recorded_s - (end_s - row.submit_s)) <= ROUNDED_S
            self.find("duration-mismatch", as_end_minus_submit=float(whole))
            if whole:
                self.find("duration-is-end-minus-submit")
        queue_s = start_s - row.submit_s
        if recorded_queue_s is not None and abs(recorded_queue_s - queue_s) > ROUNDED_S:
            self.find("queue-mismatch")

    def compare_gpu_time(self, gpu_time: float | None, gpus: Gpus, run_s: float | None) -> None:
        """Compare recorded GPU-seconds with GPUs times run time."""
        if gpu_time is None or run_s is None:
            return
        if abs(gpu_time - float(gpus * run_s)) > ROUNDED_S * max(1.0, float(gpus)):
            self.find("gpu-time-mismatch")


def _is_quoted(cell: str) -> bool:
    """Return whether a cell is between quotation marks."""
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def _raised(error: InputError) -> None:
    raise error


_NO_VALUES = (
    "none null nan nat nil na n/a #n/a n/d unknown undefined unset - -- --- -/- ? \\n (null) "
    "(none) <none> <null> <unset> <unknown> []"
)
NOTHING = frozenset(
    spelled
    for word in ("", "not set", "none assigned", *_NO_VALUES.split())
    for spelled in (word, word.upper(), word.capitalize(), word.title())
) | {"NaN", "NaT"}
"""Texts that logs write for no value."""


def is_nothing(text: str) -> bool:
    """Return whether a cell means "no value"."""
    return text in NOTHING or text.startswith(("0000-00-00", "0000/00/00"))


def number_or_none(row: Row, field: str, *, at_least: float = -math.inf) -> float | None:
    """Return a number of a cell; None for no value or no such column."""
    return None if row.cells.get(field, "") in NOTHING else row.number(field, at_least=at_least)


def gpus_of(row: Row, field: str, text: str | None = None) -> Gpus:
    """Return the GPUs of a cell, or of a part of its text; perhaps a fraction."""
    cell = row.text(field) if text is None else text
    value = row.built(lambda: fraction_of(cell), field)
    if value is None or value < 0:
        raise row.error(field, f"must be a number of at least 0, got {cell!r}")
    if value > MOST_GPUS:
        raise row.error(field, f"must be at most {MOST_GPUS}, got {cell}")
    return whole_if(value)


def whole_if(value: Fraction) -> Gpus:
    """Return the number, as `int` if it is whole."""
    return value.numerator if value.denominator == 1 else value


class TableReader(Reader):
    """Reader of a table with one row per line."""

    separators: ClassVar[tuple[str, ...]] = (",",)
    """Possible separators of cells, of which the first one in the first line is used."""
    required: ClassVar[tuple[str, ...]] = ()
    """Columns that must exist, in any order; other columns are optional."""
    lost: ClassVar[Mapping[str, str]] = {}
    """Information that is lost without a column; by default all jobs."""
    comment: ClassVar[str] = ""
    """First characters of comment lines; "" if there are none."""
    loose_end: ClassVar[tuple[str, ...]] = ()
    """Columns of free text that may contain the separator if they are the last."""

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Recognise the format by the names of its columns."""
        return {} if cls.marks and cls.marks <= set(cls.split(head.line)) else None

    @classmethod
    def split(cls, line: str, separator: str | None = None) -> list[str]:
        """Split a line into its cells, without surrounding blanks.

        Parameters
        ----------
        line
            Text of the line.
        separator
            Separator of its cells; None to find it as in a first line.
        """
        separator = separator or cls.separator_of(line)
        cells = cells_of(line, separator)
        if separator == "|" and line[:1] == '"' and all(map(_is_quoted, cells)):
            return [cell[1:-1] for cell in cells]
        around = f" {separator}", f"{separator} ", "\t"
        # Seldom there, and a third of the time that a line takes.
        if line[:1].isspace() or line[-1:].isspace() or any(blank in line for blank in around):
            return [cell.strip() for cell in cells]
        return cells

    @classmethod
    def separator_of(cls, line: str) -> str:
        """Return the separator of the cells of a first line."""
        return next((one for one in cls.separators if one in line), cls.separators[0])

    def fixed_header(self) -> tuple[str, ...] | None:
        """Return the columns of a file that has no header line; None if it has one."""
        return None

    def records(self) -> Iterator[Record]:
        """Yield rows with as many cells as the header."""
        yield from self.rows_of(self.path, self.fixed_header())

    def rows_of(self, path: Path, fixed: Sequence[str] | None) -> Iterator[Record]:
        """Yield the records of a table of this format, which may have no header line.

        Parameters
        ----------
        path
            The table.
        fixed
            Columns of a table without a header line; None where the first line names them.
        """
        file = str(path)
        header: list[str] | None = None
        separator: str | None = None
        for line, text in table_lines(path):
            if self.comment and text.startswith(self.comment):
                self.remark(text)
                continue
            separator = separator or self.separator_of(text)
            try:
                cells = self.split(text, separator)
            except InputError as error:
                yield Record(line, text, error.located(file=file, line=line))
                continue
            if header is None:
                header = list(fixed) if fixed else self._header(cells, file, line)
                if not fixed:
                    continue
                if self._is_header(cells, header):
                    self.report.found("header-row", line)
                    continue
            loose = separator == self.separators[0] and header[-1] in self.loose_end
            if len(cells) > len(header) and loose:
                last = separator.join(cells[len(header) - 1 :])
                cells = [*cells[: len(header) - 1], last]
            if len(cells) < len(header) and header[-1].startswith(_UNNAMED):
                cells += [""] * (len(header) - len(cells))
            if len(cells) != len(header):
                rule = f"must have {len(header)} fields, got {len(cells)}{self.uneven(separator)}"
                yield Record(line, text, InputError(rule, file=file, line=line))
            else:
                cells_by_name = dict(zip(header, cells, strict=True))
                yield Record(line, text, Row(file, line, cells_by_name))
        if header is None and not fixed:
            self._header([], file, 1)  # an empty file lacks every column

    def uneven(self, separator: str) -> str:  # noqa: ARG002 - of most tables nothing is known
        """Explain a row with another number of fields than the header."""
        return ""

    def remark(self, text: str) -> None:
        """Take note of a comment line."""

    @staticmethod
    def _is_header(cells: list[str], header: list[str]) -> bool:
        """Return whether the first line is a header, in a format that has none."""
        return len(set(cells) & set(header)) * 2 > len(header)

    def _header(self, cells: list[str], file: str, line: int) -> list[str]:
        missing = [name for name in self.required if name not in cells]
        lost = " and ".join(dict.fromkeys(self.lost.get(name, "its jobs") for name in missing))
        require_header(cells, self.required, file, line, lost)
        # A second column of no name must not hide the first.
        return [name or f"{_UNNAMED} {i})" for i, name in enumerate(cells, 1)]


class JsonReader(Reader):
    """Reader of a list of JSON objects."""

    items: ClassVar[str | None] = None
    """Key of the list in the document; None if the document is the list."""
    required: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Recognise the format by the names of keys."""
        return {} if cls.marks and cls.marks <= set(head.keys | set(head.entry)) else None

    def records(self) -> Iterator[Record]:
        """Yield the objects of the list."""
        yield from json_records(self.path, self.items, self.required)


def fields_of(record: Record) -> Fields:
    """Return the object of a JSON record."""
    assert isinstance(record.content, Fields)
    return record.content


def cells_row(record: Record) -> Row:
    """Return the cells of a table's record."""
    assert isinstance(record.content, Row)
    return record.content
