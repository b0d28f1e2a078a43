"""Rows of runs with plain values, for tests that care about some fields only."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

from morph_opt.scheduling.policies.base import RoundReport
from morph_opt.simulation.runs.jobs import JobRow
from morph_opt.simulation.runs.rounds import RoundRow
from morph_opt.simulation.runs.rows import columns

Row = TypeVar("Row")


def _plain(kind: type[Row], changes: dict[str, Any]) -> Row:
    types = get_type_hints(kind)
    zeros = {f.name: types[f.name]() for f in fields(kind) if types[f.name] in (str, int, float)}  # type: ignore[arg-type]
    flags = {"guaranteed": False, "completed": True}
    named = {name: flag for name, flag in flags.items() if name in types}
    return kind(**(zeros | named | changes))


def job_row(**changes: Any) -> JobRow:
    """A job that completed at once."""
    return _plain(JobRow, changes)


def round_row(**changes: Any) -> RoundRow:
    """A round in which nothing happened."""
    report = {name: changes.pop(name) for name in columns(RoundReport) if name in changes}
    return _plain(RoundRow, changes | {"report": RoundReport("optimal", **report)})
