"""``rounds.csv``: one row per decided round, with wall times in milliseconds."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass

from morph_opt.domain import InputError
from morph_opt.events.log import Event, Preempted, RoundDecided, Started, StartKind
from morph_opt.policies.base import RoundReport
from morph_opt.runs.rows import columns, from_cells, line, to_cells


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One round.

    Parameters
    ----------
    round, time_s
        Number and boundary.
    jobs, running, gpus_used
        Active jobs; jobs with GPUs and GPUs held after the decision.
    candidates, rows, columns, status, objective, bound, gap, bound_by, step, gap_of_gain
        Of the policy's report.
    guarantees_short, guarantee_shortfall, guarantees_possible
        Of the policy's report; possible is 1, 0 or empty.
    starts, restarts, preemptions
        First starts; resumptions and changes; jobs stopped by policy or node failure.
    candidates_ms ... check_ms
        Wall times of the policy's steps.
    round_ms
        Wall time of the whole decision, ``engine_ms`` of snapshot, strict check and settling.
    """

    round: int
    time_s: float
    jobs: int
    running: int
    gpus_used: int
    candidates: int
    rows: int
    columns: int
    status: str
    objective: float
    bound: float
    gap: float
    bound_by: str
    step: str
    gap_of_gain: float
    guarantees_short: int
    guarantee_shortfall: float
    guarantees_possible: bool | None
    starts: int
    restarts: int
    preemptions: int
    candidates_ms: float
    build_ms: float
    solve_ms: float
    place_ms: float
    check_ms: float
    round_ms: float
    engine_ms: float


COLUMNS = columns(RoundRow)
HEADER = line(COLUMNS)


def round_row(
    events: Iterable[Event], report: RoundReport, round_ms: float, engine_ms: float
) -> RoundRow:
    """The row of the round whose events these are (the last one is its `RoundDecided`)."""
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
        candidates=report.candidates,
        rows=report.rows,
        columns=report.columns,
        status=report.status,
        objective=report.objective,
        bound=report.bound,
        gap=report.gap,
        bound_by=report.bound_by,
        step=report.step,
        gap_of_gain=report.gap_of_gain,
        guarantees_short=report.guarantees_short,
        guarantee_shortfall=report.guarantee_shortfall,
        guarantees_possible=report.guarantees_possible,
        starts=starts,
        restarts=restarts,
        preemptions=preemptions,
        candidates_ms=report.candidates_ms,
        build_ms=report.build_ms,
        solve_ms=report.solve_ms,
        place_ms=report.place_ms,
        check_ms=report.check_ms,
        round_ms=round_ms,
        engine_ms=engine_ms,
    )


def row_to_line(row: RoundRow) -> str:
    """One CSV line with its line break; numbers that are not there are empty cells."""
    return line(to_cells(row, COLUMNS))


def row_from_line(text: str) -> RoundRow:
    """Read back a line of ``rounds.csv``.

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
