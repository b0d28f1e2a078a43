"""Batsim workloads (JSON): jobs with profiles; only profiles that are delays have a duration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from morph_opt.core.documents import Fields, kind_of
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.reading.reader import MOST_GPUS, JsonReader, fields_of
from morph_opt.inputs.traces.logs.reading.records import Record, json_member
from morph_opt.inputs.traces.logs.reading.row import LogRow

DELAYS = ("DelayProfile", "delay")
"""Type of a profile that is a duration: of version 5, and before."""


class BatsimReader(JsonReader):
    """Reader of ``jobs`` with ``profiles``."""

    name, relative = "batsim", True
    options = ("procs_per_gpu",)
    items = "jobs"
    marks = frozenset(("jobs", "profiles"))
    required = ("id", "subtime", "res", "profile")
    _profiles: dict[str, Any]

    def records(self) -> Iterator[Record]:
        """Yield the jobs; the profiles, which may come later in the file, are read first."""
        profiles = json_member(self.path, "profiles")
        if not isinstance(profiles, dict):
            rule = f"must be an object, got {kind_of(profiles)}"
            raise InputError(rule, file=str(self.path), field="profiles")
        self._profiles = profiles
        yield from super().records()

    def row(self, record: Record) -> LogRow:
        """Return the job of an element; a walltime shorter than its delay ends it."""
        job = fields_of(record)
        name = job.raw("id")
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise job.error("id", f"must be text or a whole number, got {kind_of(name)}")
        delay_s = self._delay_s(job)
        wall_s = job.number("walltime") if job.has("walltime") else -1.0
        killed = delay_s is not None and 0.0 <= wall_s < delay_s
        run_s = wall_s if killed else delay_s
        res = job.whole("res", least=0, most=MOST_GPUS)
        return LogRow(
            str(name),
            record.line,
            job.number("subtime", least=0.0),
            run_s=run_s,
            gpus=self.processors(res),
            cpus=res or None,
            status="killed" if killed else "",
            outcome="failed" if killed else "unknown" if run_s is None else "completed",
            kind=job.text("profile"),
            limit_s=wall_s if wall_s >= 0.0 else None,
        )

    def _delay_s(self, job: Fields) -> float | None:
        name = job.text("profile")
        if name not in self._profiles:
            raise job.error("profile", f"unknown profile {name!r}")
        profile = Fields(self._profiles[name], f"profiles.{name}", str(self.path), None)
        return profile.number("delay") if profile.text("type") in DELAYS else None
