"""Values of a run, from its folder or from memory.

>>> from morph_opt.simulation.runs.read import read_run  # doctest: +SKIP
>>> read_run("runs/base").summary.avg_jct_s  # doctest: +SKIP
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from morph_opt.core.documents import (
    LINES_BYTES,
    exists,
    read_json,
    read_lines,
    read_rows,
    read_text,
    rows_of,
)
from morph_opt.core.documents import Row as CsvRow
from morph_opt.core.domain import ExecutionPlan, InputError, Placement
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.domain.placement import gpus_text
from morph_opt.simulation.events.log import Event, event_from_line, label_of
from morph_opt.simulation.metrics.history import Segment, segments_of
from morph_opt.simulation.runs.groups import COLUMNS as GROUP_COLUMNS
from morph_opt.simulation.runs.groups import GroupRow
from morph_opt.simulation.runs.jobs import COLUMNS as JOB_COLUMNS
from morph_opt.simulation.runs.jobs import FORMER, MORE_COLUMNS, JobRow
from morph_opt.simulation.runs.rounds import COLUMNS as ROUND_COLUMNS
from morph_opt.simulation.runs.rounds import RoundRow
from morph_opt.simulation.runs.rows import Records, Row, columns, from_cells
from morph_opt.simulation.runs.summary import Summary
from morph_opt.simulation.runs.write import EVENTS, GROUPS, JOBS, PARTIAL, ROUNDS, SUMMARY

SEGMENT_COLUMNS = (
    "job", "plan", "start_s", "end_s", "held_s", "gpus", "allocated_gpus", "startup_s",
    "iteration_s", "iterations_from", "iterations", "shared_s", "kind", "ended_by",
    "iterations_lost",
)  # fmt: skip
"""Columns of a table of segments: fields and properties of `Segment`."""


class EventLog(Records[Event]):
    """Events of a run, in order, as classes of `morph_opt.simulation.events.log`."""

    def __init__(self, events: Iterable[Event]) -> None:
        log = tuple(events)
        kinds = dict.fromkeys(type(event) for event in log)
        super().__init__(log, ("event", *dict.fromkeys(n for kind in kinds for n in columns(kind))))

    def column(self, name: str) -> list[Any]:
        """Return one field of every event, None for kinds without it; ``event`` is the kind.

        Raises
        ------
        InputError
            If no kind has such a field.
        """
        if name not in self.names:
            raise InputError(unknown("column", str(name), self.names))
        if name == "event":
            return [label_of(event) for event in self]
        return [_plain(getattr(event, name, None)) for event in self]


def _plain(value: object) -> object:
    if isinstance(value, Placement):
        return gpus_text(value)
    return str(value) if isinstance(value, ExecutionPlan) else value


@dataclass(frozen=True, slots=True)
class Parts:
    """Sources of a run's values, each called when it is needed.

    Parameters
    ----------
    summary
        Content of ``summary.json``.
    jobs, rounds, events, groups
        Rows of ``jobs.csv`` and ``rounds.csv``, lines of ``events.jsonl``, rows of ``groups.csv``.
    why
        Function that explains a job's allocation from events, job name and instant; None if runs
        cannot be repeated.
    """

    summary: Callable[[], Summary]
    jobs: Callable[[], Iterable[JobRow]]
    rounds: Callable[[], Iterable[RoundRow]]
    events: Callable[[], Iterable[Event]]
    groups: Callable[[], Iterable[GroupRow]] = tuple
    why: Callable[[Sequence[Event], str, float], str] | None = None


class Run:
    """Finished run.

    Everything but the summary has ``to_pandas()``; a folder's files are read at first use.

    Parameters
    ----------
    parts
        Sources of the values; `folder_parts` for a folder.
    folder
        Run folder; None for a run that was not written.
    """

    def __init__(self, parts: Parts, folder: Path | None = None) -> None:
        require_type("parts", parts, Parts)
        self.parts = parts
        self.folder = folder

    @cached_property
    def summary(self) -> Summary:
        """Figures of the whole run."""
        return self.parts.summary()

    @cached_property
    def jobs(self) -> Records[JobRow]:
        """Outcome of each job, in the order of the trace."""
        return Records(self.parts.jobs(), columns(JobRow))

    @cached_property
    def rounds(self) -> Records[RoundRow]:
        """Decision of each round, with wall times."""
        return Records(self.parts.rounds(), ROUND_COLUMNS)

    @cached_property
    def groups(self) -> Records[GroupRow]:
        """Figures of each queue, user and priority class; empty if all jobs are of one."""
        return Records(self.parts.groups(), GROUP_COLUMNS)

    @cached_property
    def segments(self) -> Records[Segment]:
        """GPUs held by each job over time, ordered by end."""
        return Records(segments_of(self.events), SEGMENT_COLUMNS)

    @cached_property
    def events(self) -> EventLog:
        """Events of the log."""
        return EventLog(self.parts.events())

    def why(self, job: str, at_s: float) -> str:
        """Explain a job's allocation in the round at an instant, or in the next round.

        The run's decisions are repeated up to that round, which alone is solved and priced again.

        Parameters
        ----------
        job
            Its name in the trace.
        at_s
            Seconds of simulated time.

        Raises
        ------
        InputError
            If the run is not one of ``milp``, or has no such job then.
        """
        if self.parts.why is None:
            raise InputError("needs a run of mo.Scenario.run or mo.read_run", field="why")
        return self.parts.why(self.events, job, at_s)

    def __repr__(self) -> str:
        s = self.summary
        where = "" if self.folder is None else f" in {self.folder}"
        return f"<Run of {s.trace} by {s.policy}: {s.completed} of {s.jobs} jobs{where}>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>\n{self.summary.to_table().to_html()}"


_OTHERS = {
    "answer.json": "an answer of plan: answer.json and evidence.csv in it are the whole of it",
    "sweep.json": "a sweep: python -m morph_opt.sweep table reads it",
    "cells": "of cells of a sweep or plan, which the same command continues",
}
"""Descriptions of folders of many runs, by the file that identifies them."""


def other_folder(path: Path) -> str | None:
    """Return the description of a folder of many runs; None for any other folder."""
    if exists(path / SUMMARY):
        return None
    return next((what for file, what in _OTHERS.items() if exists(path / file)), None)


def read_run(folder: str | Path) -> Run:
    """Read the run that a folder holds.

    Raises
    ------
    InputError
        If it holds no finished run, or a file is damaged; files are read at first use, so a
        damaged one may be found later.
    """
    path = Path(require_type("folder", folder, str, Path))
    if exists(path / (EVENTS + PARTIAL)):
        raise InputError(
            f"holds a run that is not finished ({typed('--resume')} finishes it)", file=str(path)
        )
    if (other := other_folder(path)) is not None:
        raise InputError(f"is no run folder but {other}", file=str(path))
    if not exists(path / SUMMARY):
        rule = (
            f"is no run folder (it has no {SUMMARY}); `replay --out` and `Scenario.run` write one"
        )
        raise InputError(rule, file=str(path))
    run = Run(folder_parts(path), path)
    _ = run.summary
    return run


def folder_parts(folder: Path) -> Parts:
    """Return the sources of a run folder; no file is read yet."""
    return Parts(
        partial(_summary, folder / SUMMARY),
        partial(read_job_rows, folder / JOBS),
        lambda: _parsed(read_rows(folder / ROUNDS, ROUND_COLUMNS), RoundRow),
        partial(_events, folder / EVENTS),
        partial(read_group_rows, folder / GROUPS),
    )


def read_group_rows(path: Path) -> tuple[GroupRow, ...]:
    """Read the rows of a ``groups.csv``; none if there is no such file.

    Raises
    ------
    InputError
        If the file is damaged; names line and field.
    """
    return tuple(_parsed(read_rows(path, GROUP_COLUMNS), GroupRow)) if exists(path) else ()


def read_job_rows(path: Path) -> tuple[JobRow, ...]:
    """Read the rows of a ``jobs.csv``, with or without its run folder.

    Raises
    ------
    InputError
        If the file is missing or damaged; names line and field.
    """
    header, end, rest = read_text(path, LINES_BYTES).partition("\n")
    if header.startswith("job_id,"):  # of an earlier version
        header = ",".join(FORMER.get(name, name) for name in header.split(","))
    rows = rows_of(header + end + rest, str(path), JOB_COLUMNS, MORE_COLUMNS)
    found = _parsed(rows, JobRow)
    return tuple(replace(row, state=FORMER.get(row.state, row.state)) for row in found)


def _summary(path: Path) -> Summary:
    values = read_json(path)
    if not isinstance(values, dict):
        raise InputError("is no summary of a run", file=str(path))
    for name, value in values.items():
        if isinstance(value, dict | list) or not f"{name}{value}".isprintable():
            raise InputError("must be a number or one line of text", file=str(path), field=name)
    try:
        return Summary.of(values)
    except InputError as error:
        raise error.located(file=str(path)) from error


def _events(path: Path) -> Iterable[Event]:
    for number, text in read_lines(path):
        try:
            yield event_from_line(text)
        except InputError as error:
            raise error.located(file=str(path), line=number) from error


def _parsed(rows: Iterable[CsvRow], kind: type[Row]) -> Iterator[Row]:
    for row in rows:
        try:
            yield from_cells(kind, tuple(row.cells), tuple(row.cells.values()))
        except InputError as error:
            raise row.located(error) from error
