"""Pass over a log: each row to exactly one place, and jobs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from morph_opt.core.domain import InputError
from morph_opt.core.domain._validate import LONGEST_NAME, require_name
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.job import LATEST_S
from morph_opt.core.extend import require_kind
from morph_opt.inputs.data.archive import sha256_of
from morph_opt.inputs.traces.logs.reading.clock import Clock, window_of
from morph_opt.inputs.traces.logs.reading.fold import folded_attempts, folded_components, lives
from morph_opt.inputs.traces.logs.reading.reader import Reader
from morph_opt.inputs.traces.logs.reading.records import MissingColumns, Record
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import RANK, LogRow, Reading

MOST_SECONDS = 1e12
"""Longest run time, and latest instant from a log's zero: 30,000 years."""

_SHOWN_STATES = 4
_PARTS_OF_GPUS = frozenset(("mig-slice", "fractional-gpu", "resource-claims"))
"""Reasons of rows that hold parts of GPUs."""


class Scan:
    """Pass over a log.

    Parameters
    ----------
    path
        The log.
    known
        Its format.
    how
        Options of reading, for what the log does not state.
    strict
        Whether the first malformed row ends it; else malformed rows are counted.
    also
        Called with every row that is no job, but for malformed ones, and with the reason.

    Attributes
    ----------
    report
        Complete when `jobs` is exhausted.

    Raises
    ------
    InputError
        If the format does not know one of the options.
    """

    def __init__(
        self,
        path: Path,
        known: type[Reader],
        how: Reading | None = None,
        *,
        strict: bool = True,
        also: Callable[[LogRow, str], None] | None = None,
    ) -> None:
        self.known = known
        self.strict = strict
        self.also = also
        self.how = known.understood(how or Reading())
        self.report = Report(known.name, options=self.how.given())
        self.clock = Clock(self.how.timezone or known.zone or "UTC", numbers=known.dates_or_seconds)
        self.reader = known(path, self.how, self.clock, self.report)
        self.reader.complain = self._malformed
        self.path = self.reader.path
        self._seen: set[int] = set()
        self._states: list[str] = []
        self._last_s = -float("inf")
        self._held: dict[str, list[LogRow]] = {}
        self._open: dict[str, list[LogRow]] = {}
        self._several: frozenset[int] = frozenset()
        absolute, window = None if known.dates_or_seconds else bool(known.zone), self.how.window
        zone = self.clock.zone
        self._window = window_of(window, zone, absolute=absolute) if window else None

    def jobs(self) -> Iterator[LogRow]:
        """Yield the jobs in the order of the log; jobs of several rows come last.

        Raises
        ------
        InputError
            For what cannot be read at all; when strict, for the first malformed row.
        """
        report = self.report
        try:
            self._several = self._groups_of_several() if self.known.folds else frozenset()
            for row in self._rows():
                if self.known.folds:
                    group = self.reader.group(row.name)[0]
                    if self._is_several(row):
                        self._held.setdefault(row.key or group, []).append(row)
                        continue
                    row = row if group == row.name else row._replace(name=group)  # noqa: PLW2901
                report.keep(row)
                yield row
            for key in list(self._held):
                for job in self._jobs_of(key, self._held.pop(key)):
                    report.keep(job)
                    yield job
        except MissingColumns as error:
            if self.strict:
                raise
            self._missing(error)
        self._finish()

    def _missing(self, error: MissingColumns) -> None:
        code = "no-header" if error.none_is_there else "missing-columns"
        lost = error.rule.removeprefix("column is missing: ").removesuffix(" cannot be known")
        columns = ", ".join(error.columns)
        count = 1 if error.none_is_there else len(error.columns)
        self.report.found(code, error.line, count, columns=columns, lost=lost)

    def _groups_of_several(self) -> frozenset[int]:
        """Return hashes of the jobs with several rows, found in a separate pass.

        Only these have to be held until the end of the file.
        """
        seen: set[int] = set()
        again: set[int] = set()
        scout = Scan(self.path, self.known, self.how, strict=False)
        for record in scout._records():
            if not isinstance(record.content, InputError):
                key = hash(scout.reader.key_of(record))
                (again if key in seen else seen).add(key)
        return frozenset(again)

    def _is_several(self, row: LogRow) -> bool:
        """Return whether the job of a row has further rows."""
        return hash(row.key or self.reader.group(row.name)[0]) in self._several

    def _records(self) -> Iterator[Record]:
        """Yield the reader's records; the rest of a cut file is one malformed record."""
        line = 0
        try:
            for record in self.reader.records():
                line = record.line
                yield record
        except MissingColumns:
            raise
        except InputError as error:
            if self.how.malformed != "drop":
                raise (_droppable(error) if line else error) from None
            if not line:
                raise
            yield Record(error.line or line, "", error)

    def _rows(self) -> Iterator[LogRow]:
        """Yield rows that are jobs or attempts; count all others under their reason."""
        reader, report = self.reader, self.report
        for record in self._records():
            report.rows += 1
            reader.reasons.clear()
            reader.unsized = False
            reader.findings.clear()
            try:
                if isinstance(record.content, InputError):
                    raise record.content
                row = reader.row(record)
                if isinstance(row, LogRow):
                    _require_instants(row, relative=self.known.relative)
            except MissingColumns:
                raise
            except InputError as error:
                self._malformed(error.located(file=str(self.path), line=record.line))
                report.drop("malformed", record.line)
                continue
            require_kind(row, LogRow, f"{type(reader).__name__}.row", "trace")
            reason = self._reason(row, record.text)
            if reason is not None:
                self._drop(row, reason)
                continue
            try:
                _require_names(row)
            except InputError as error:
                self._malformed(error.located(file=str(self.path), line=row.line))
                report.drop("malformed", row.line)
                continue
            for code, details in reader.findings:
                report.found(code, row.line, 1, **details)
            if row.submit_s < self._last_s:
                report.found("unsorted", row.line)
            self._last_s = row.submit_s
            yield self._rounded(row)

    def _malformed(self, error: InputError) -> None:
        dropped = self.how.malformed == "drop"
        if self.strict and not dropped:
            raise _droppable(error) from None
        if self.report.first_malformed is None:
            self.report.first_malformed = error
        self.report.found("malformed-dropped" if dropped else "malformed", error.line)

    def _reason(self, row: LogRow, text: str) -> str | None:
        """Return the first reason for which a row is no job; None for a job."""
        found = list(self.reader.reasons)
        key = hash(text)
        if key in self._seen and self.reader.ids:
            found.append("duplicate")
        elif key in self._seen:
            self.reader.find("identical-rows")
        self._seen.add(key)
        if not row.gpus and not self.reader.unsized and not _PARTS_OF_GPUS & set(found):
            found.append("no-gpu")
        if row.run_s is None:
            if self.known.durations:
                found.append("no-duration")
        elif row.run_s <= 0.0:
            found.append("zero-duration" if row.run_s == 0.0 else "negative-duration")
        if not isinstance(row.gpus, int) and self.how.gpu_shares != "round-up":
            found.append("fractional-gpu")
        # Whoever has several rows is chosen as the job that they make, not row by row.
        if not self._several or not self._is_several(row):
            found += self._unwanted(row)
        return min(found, key=RANK.__getitem__) if found else None

    def _unwanted(self, job: LogRow) -> list[str]:
        """Return the user's options that exclude a job."""
        found = []
        if self.how.only == "completed" and job.outcome != "completed":
            found.append("not-completed")
        if self._window and not self._window[0] <= job.submit_s < self._window[1]:
            found.append("outside-window")
        return found

    def _drop(self, row: LogRow, reason: str) -> None:
        report = self.report
        report.drop(reason, row.line)
        if self.also is not None:
            self.also(row, reason)
        if reason == "still-running" and self.known.folds:
            self._open.setdefault(row.key or self.reader.group(row.name)[0], []).append(row)
        if reason == "unknown-status":
            if row.status not in self._states and len(self._states) < _SHOWN_STATES:
                self._states.append(row.status)
            report.found(reason, row.line, states=", ".join(self._states))
        elif reason in ("negative-duration", "zero-duration"):
            report.found(reason, row.line)
        elif reason == "outside-window" and self._window and row.run_s:
            begin, first_s = (
                row.start_s if row.start_s is not None else row.submit_s,
                self._window[0],
            )
            left_s = min(row.run_s, begin + row.run_s - first_s)
            if row.submit_s < first_s and begin < first_s and left_s > 0.0:
                held = float(row.gpus) * left_s
                report.found("running-at-window-start", row.line, gpu_s=held)

    def _rounded(self, row: LogRow) -> LogRow:
        """Return the row with whole GPUs, if shares are rounded up."""
        if isinstance(row.gpus, int):
            return row
        whole = -int(-row.gpus // 1)
        invented = float((whole - row.gpus) * (row.run_s or 0.0))
        self.report.found("gpu-shares-rounded", row.line, invented_gpu_s=invented)
        return row._replace(gpus=whole)

    def _jobs_of(self, key: str, rows: list[LogRow]) -> Iterator[LogRow]:
        """Yield the jobs of the rows of one id."""
        running = self._open.get(key, [])
        lines = {row.line for row in running}
        several = lives([*rows, *running], self.reader.reused_after_s)
        if len(several) > 1:
            self.report.found("another-job", several[1][0].line, len(several) - 1)
        for life in several:
            ended = [row for row in life if row.line not in lines]
            if ended:
                job = self._folded(ended, still_running=len(ended) < len(life))
                if job is not None:
                    yield job

    def _folded(self, rows: list[LogRow], *, still_running: bool) -> LogRow | None:
        """Return one job of its rows; None if they are no job."""
        parts: dict[str, list[LogRow]] = {}
        for row in rows:
            name, component = self.reader.group(row.name)
            parts.setdefault(component, []).append(row)
        reason = "still-running" if still_running else None
        if reason is None and len(parts) > 1 and len({row.gpu_type for row in rows}) > 1:
            reason = "mixed-gpu-types"
        if reason is not None:
            for row in rows:
                self._drop(row, reason)
            return None
        line = min(row.line for row in rows)
        findings: list[tuple[str, dict[str, float | str]]] = []

        def find(code: str, **details: float | str) -> None:
            findings.append((code, details))

        attempts = [folded_attempts(part, find) for part in parts.values()]
        job = folded_components(attempts, name, find)
        if unwanted := self._unwanted(job):
            for row in rows:
                self._drop(row, unwanted[0])
            return None
        self.report.folded += len(rows) - 1
        for code, details in findings:
            self.report.found(code, line, 1, **details)
        return job

    def _finish(self) -> None:
        """Add findings about the whole file, and the assumptions."""
        report, clock = self.report, self.clock
        self.reader.finish()
        if clock.naive and clock.zoned and self.how.timezone is None:
            report.found("zones-differ", None, clock.naive, zone=clock.zone, zoned=clock.zoned)
        if clock.naive:
            report.found("naive-time", None, clock.naive, zone=clock.zone)
        if clock.ambiguous:
            report.found("dst-overlap", None, clock.ambiguous)
        if not report.rows and not report.findings:
            report.found("no-rows")
        elif report.rows and not report.jobs and report.worst != "error":
            dropped = ", ".join(f"{reason} {count:,}" for reason, count in report.by_reason())
            report.found("no-job", None, report.rows, dropped=dropped)
        report.assumed += self.reader.assumed()
        for path in self.reader.files():
            report.files[path.name] = sha256_of(path)
        report.sha256 = report.files.get(self.path.name, "")


def _droppable(error: InputError) -> InputError:
    """Return the error about a row, with how to leave such rows out."""
    rule = f"{error.rule}; {typed('--malformed')}=drop leaves such rows out and counts them"
    return InputError(rule, file=error.file, line=error.line, field=error.field)


def _require_instants(row: LogRow, *, relative: bool) -> None:
    """Refuse times that no calendar or no replay has; sums of GPU-seconds stay numbers."""
    for field in ("submit_s", "start_s", "end_s", "run_s"):
        value = getattr(row, field)
        most = LATEST_S / 2 if field == "submit_s" else MOST_SECONDS
        if value is not None and not abs(value) <= most:
            rule = f"must be within {most:g} s of the log's zero, got {value:g}"
            raise InputError(rule, line=row.line, field=field)
    if relative and row.submit_s < 0.0:
        rule = f"must be at least 0 on a clock that begins there, got {row.submit_s:g}"
        raise InputError(rule, line=row.line, field="submit_s")


def _require_names(row: LogRow) -> None:
    """Refuse names that no job of a replay may have."""
    for field, text in (
        ("name", row.name),
        ("tenant", row.tenant or row.user or "-"),
        ("gpu_type", row.gpu_type or "-"),
    ):
        if not (text.isprintable() and text == text.strip() and 0 < len(text) <= LONGEST_NAME):
            require_name(field, text)
