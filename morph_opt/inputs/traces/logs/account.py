"""Account of a log: rows read, dropped, assumed and changed on the way to jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from morph_opt.inputs.traces.logs.reading.report import Report

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
