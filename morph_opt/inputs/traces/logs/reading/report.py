"""Report on a log: every row in one place, every finding with its first lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import shown
from morph_opt.inputs.traces.logs.reading.checks import CHECKS, Severity
from morph_opt.inputs.traces.logs.reading.row import RANK, LogRow

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
        By code of `morph_opt.inputs.traces.logs.reading.checks.CHECKS`.
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
        """GPU-seconds that the jobs held; None if that of any is unknown."""
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
