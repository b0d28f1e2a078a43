"""Report on a log and account of what was read of it: every row in one place."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from morph_opt.core.documents.source import packaged_toml
from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import shown
from morph_opt.inputs.traces.logs.reading.row import RANK, LogRow

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Check:
    """Kind of finding.

    Parameters
    ----------
    code
        Key of ``findings`` in the JSON.
    severity
        ``error``: cannot be replayed as it is; ``warning``: kept, and numbers may mislead;
        ``note``.
    sentence
        Sentence on the finding: its kind and count, why it matters, and what is done; a format
        string.
    """

    code: str
    severity: Severity
    sentence: str


def _checks() -> dict[str, Check]:
    tables = packaged_toml(__package__, "checks.toml")
    return {code: Check(code, **table) for code, table in tables.items()}


CHECKS = _checks()
"""Findings by code, errors first."""


FIRST_LINES = 5
"""Number of lines that a finding keeps."""
MICRO = 1_000_000
"""Parts of a GPU-second that are added as whole numbers, so that order does not matter."""


@dataclass(slots=True)
class Found:
    """Finding: its count, its first lines, and details for its sentence."""

    count: int = 0
    lines: list[int] = field(default_factory=list)
    details: dict[str, float | str] = field(default_factory=dict)


@dataclass(slots=True)
class Report:
    """Account of a log: ``rows = jobs + dropped + folded``.

    Parameters
    ----------
    format
        Name of the format.
    rows, jobs, folded
        Rows read; jobs that they are; rows that are further attempts or components of a job.
    dropped
        Rows that are no job, by reason.
    findings
        By code of `morph_opt.inputs.traces.logs.reading.report.CHECKS`.
    first_malformed
        Complaint about the first malformed row.
    sha256, files
        Digest of the file; of each file if there are several.
    options
        Options of reading.
    assumed
        Assumptions about what the log does not state, in sentences.
    """

    format: str
    rows: int = 0
    jobs: int = 0
    folded: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Found] = field(default_factory=dict)
    first_malformed: InputError | None = None
    sha256: str = ""
    files: dict[str, str] = field(default_factory=dict)
    options: dict[str, str | int] = field(default_factory=dict)
    assumed: list[str] = field(default_factory=list)
    _gpu_micros: int = 0
    _unknown: int = 0
    _first_dropped: dict[str, list[int]] = field(default_factory=dict)

    def by_reason(self) -> list[tuple[str, int]]:
        """Return dropped rows by reason, in the order in which reasons are checked."""
        return [
            (reason, self.dropped[reason]) for reason in sorted(self.dropped, key=RANK.__getitem__)
        ]

    @property
    def gpu_seconds(self) -> float | None:
        """GPU-seconds that the jobs held; None if some job's are unknown."""
        return None if self._unknown else self._gpu_micros / MICRO

    def found(
        self, code: str, line: int | None = None, n: int = 1, /, **details: float | str
    ) -> None:
        """Count a finding; numbers among its details are added up, ``worst`` is the largest."""
        one = self.findings.setdefault(code, Found())
        one.count += n
        if line is not None and len(one.lines) < FIRST_LINES:
            one.lines.append(line)
        for name, value in details.items():
            before = one.details.get(name)
            if isinstance(value, str) or not isinstance(before, int | float):
                one.details[name] = value
            else:
                one.details[name] = max(before, value) if name == "worst" else before + value

    def drop(self, reason: str, line: int) -> None:
        """Count a row that is no job."""
        self.dropped[reason] += 1
        lines = self._first_dropped.setdefault(reason, [])
        if len(lines) < FIRST_LINES:
            lines.append(line)

    def keep(self, job: LogRow) -> None:
        """Count a job."""
        self.jobs += 1
        seconds = job.gpu_seconds
        if seconds is None:
            self._unknown += 1
        else:
            self._gpu_micros += round(seconds * MICRO)

    def sentences(self) -> Iterator[tuple[Severity, str, str]]:
        """Yield severity, code and sentence of every finding, the worst first."""
        for code, check in CHECKS.items():
            found = self.findings.get(code)
            if found is not None:
                yield check.severity, code, check.sentence.format(**self._values(found))

    def _values(self, found: Found) -> Mapping[str, object]:
        """Return the values that fill a sentence."""
        whole = self.rows if self.rows else 1
        values: dict[str, object] = {
            "n": found.count,
            "rows": self.rows,
            "jobs": self.jobs,
            "share": f"{found.count / whole:.1%}",
            "format": self.format,
            "line": found.lines[0] if found.lines else "?",
            "first": "" if self.first_malformed is None else _without_file(self.first_malformed),
        }
        safe = {k: shown(v) if isinstance(v, str) else v for k, v in found.details.items()}
        return values | safe

    @property
    def worst(self) -> Severity | None:
        """Worst severity that was found; None if nothing was found."""
        return next((severity for severity, _, _ in self.sentences()), None)

    def as_dict(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        lines = {code: found.lines for code, found in self.findings.items()}
        return {
            "format": self.format,
            "rows": self.rows,
            "jobs": self.jobs,
            "folded": self.folded,
            "gpu_seconds": self.gpu_seconds,
            "dropped": dict(self.by_reason()),
            "findings": {code: found.count for code, found in self.findings.items()},
            "first_lines": self._first_dropped | lines,
            "sha256": self.sha256,
            "files": self.files,
            "options": self.options,
            "assumed": self.assumed,
        }


def _without_file(error: InputError) -> InputError:
    """Return an error about a line without the file, which the report names."""
    return InputError(error.rule, line=error.line, field=error.field)


ROUND_S = 60.0
"""Length of a round, in seconds, that short jobs are compared with."""


@dataclass(slots=True)
class Account:
    """Account of a log: its rows, what was dropped, assumed and changed.

    Parameters
    ----------
    report
        Report of the reading.
    assumed, changed
        Facts that are not in the log; facts of the log that were altered.
    terms
        Licence and citation of a published log.
    short
        Jobs that measure the round and not the policy.
    """

    report: Report
    assumed: list[str]
    changed: list[str]
    terms: Mapping[str, str] = field(default_factory=dict)
    short: int = 0

    def lines(self) -> dict[str, str]:
        """Return the lines of the account by name: read, dropped, assumed, changed."""
        report = self.report
        gpu_s = report.gpu_seconds
        known = "" if gpu_s is None else f", {gpu_s:,.10g} GPU-seconds"
        return {
            "read": f"{report.rows:,} rows, {report.jobs:,} jobs{known}, {report.folded:,} folded; "
            f"{self.short:,} run for less than a round of {ROUND_S:g} s",
            "dropped": ", ".join(map(self._dropped, report.by_reason())) or "nothing",
            "assumed": "; ".join((*report.assumed, *self.assumed, *self._warnings())) or "nothing",
            "changed": "; ".join(self.changed) or "nothing",
        }

    def _warnings(self) -> Iterator[str]:
        """Yield the linter's warnings about the reading, for a replay."""
        for severity, _, sentence in self.report.sentences():
            if severity == "warning":
                yield f"warning: {sentence}"

    def texts(self) -> tuple[str, ...]:
        """Return the lines as they are printed."""
        return tuple(f"{name:<8} {line}" for name, line in self.lines().items())

    def _dropped(self, counted: tuple[str, int]) -> str:
        reason, count = counted
        first = self.report.first_malformed
        why = f" ({first})" if reason == "malformed" and first is not None else ""
        return f"{reason} {count:,}{why}"

    def as_json(self) -> str:
        """Return the report of the reading, with these lines, as JSON."""
        content = self.report.as_dict() | dict(self.terms) | {"account": self.lines()}
        return json.dumps(content, indent=2) + "\n"
