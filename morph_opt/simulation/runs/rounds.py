"""``rounds.csv``: one row per decided round, with wall times in milliseconds."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace

from morph_opt.core.domain import InputError
from morph_opt.core.domain.missing import MissingEqual
from morph_opt.scheduling.policies.base import RoundReport
from morph_opt.simulation.events.log import Event, Preempted, RoundDecided, Started, StartKind
from morph_opt.simulation.runs.rows import from_cells, line, to_cells


@dataclass(frozen=True, eq=False, slots=True)
class RoundRow(MissingEqual):
    """Row of a decided round; the file has the report's fields as columns like the others.

    Parameters
    ----------
    round, time_s
        Number of the round, and instant of its boundary.
    jobs, running, gpus_used
        Active jobs; jobs with GPUs and GPUs held after the decision.
    report
        Report of the policy; ``guarantees_short`` and ``guarantee_shortfall`` are counted from the
        log (`morph_opt.simulation.metrics.promises.PromiseCount`).
    starts, restarts, preemptions
        First starts; resumptions and changes; jobs stopped by policy or node failure.
    round_ms, engine_ms
        Wall time of the whole decision; of snapshot, strict check and settling.
    """

    round: int
    time_s: float
    jobs: int
    running: int
    gpus_used: int
    report: RoundReport
    starts: int
    restarts: int
    preemptions: int
    round_ms: float
    engine_ms: float


COLUMNS = (
    "round", "time_s", "jobs", "running", "gpus_used", "candidates", "rows", "columns", "status",
    "objective", "bound", "gap", "bound_by", "step", "gap_of_gain", "guarantees_short",
    "guarantee_shortfall", "guarantees_possible", "starts", "restarts", "preemptions",
    "candidates_ms", "build_ms", "solve_ms", "place_ms", "check_ms", "round_ms", "engine_ms",
)  # fmt: skip
"""Columns in the order of the file."""
HEADER = line(COLUMNS)


def round_row(
    events: Iterable[Event],
    report: RoundReport,
    short: tuple[int, float],
    round_ms: float,
    engine_ms: float,
) -> RoundRow:
    """Return the row of a round from its events, of which the last is `RoundDecided`.

    ``short`` is the number of broken promises and the sum of missing fractions.
    """
    # Most rounds of a long replay repeat the one before, with the same report.
    if short != (report.guarantees_short, report.guarantee_shortfall):
        report = replace(report, guarantees_short=short[0], guarantee_shortfall=short[1])
    starts = restarts = preemptions = 0
    decided: RoundDecided | None = None
    for event in events:
        match event:
            case Started():
                starts += event.kind is StartKind.FIRST
                restarts += event.kind is not StartKind.FIRST
            case Preempted():
                preemptions += 1
            case RoundDecided():
                decided = event
            case _:
                pass
    if decided is None:
        raise ValueError("the events hold no decided round")
    return RoundRow(
        round=decided.index,
        time_s=decided.time_s,
        jobs=decided.active,
        running=decided.running,
        gpus_used=decided.gpus,
        report=report,
        starts=starts,
        restarts=restarts,
        preemptions=preemptions,
        round_ms=round_ms,
        engine_ms=engine_ms,
    )


def row_to_line(row: RoundRow) -> str:
    """Format one CSV line with its line break; missing numbers are empty cells."""
    return line(to_cells(row, COLUMNS))


def row_from_line(text: str) -> RoundRow:
    """Return the row of a line of ``rounds.csv``.

    Raises
    ------
    InputError
        If it is not such a line.
    """
    try:
        cells = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise InputError(f"is not a CSV line: {error}") from None
    return from_cells(RoundRow, COLUMNS, cells)
