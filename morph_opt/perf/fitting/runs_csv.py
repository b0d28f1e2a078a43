"""A user's own profiled runs: CSV with shape, plan, iteration_s, and phases if known."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from morph_opt.domain import ExecutionPlan, InputError, Shape
from morph_opt.domain._validate import require_finite
from morph_opt.perf.analytic.phases import Phase, phases_of
from morph_opt.perf.fitting.runs import Run

COLUMNS = ("shape", "plan", "iteration_s")
PHASE_COLUMNS = ("forward_s", "sync_s", "optimizer_s")
"""Optional, all or none: times of the phases, each waiting for its kernels."""


def read_runs(file: Path) -> list[Run]:
    """Runs of a CSV file such as ``8,dp+ga,0.41``.

    With the columns `PHASE_COLUMNS`, a row either fills all three of them (0 where a phase is
    booked with synchronisation, the backward pass) or none.

    Raises
    ------
    InputError
        If the file cannot be read, has other columns or no rows, a row is malformed, or a
        configuration occurs twice.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", file=str(file)) from None
    reader = csv.DictReader(io.StringIO(text))
    columns = tuple(reader.fieldnames or ())
    if columns not in (COLUMNS, COLUMNS + PHASE_COLUMNS):
        raise InputError(
            f"must have exactly the columns {','.join(COLUMNS)}, and "
            f"{','.join(PHASE_COLUMNS)} if phases are known",
            file=str(file),
            line=1,
        )
    runs: list[Run] = []
    for line, row in enumerate(reader, start=2):
        try:
            run = _run(row)
        except InputError as error:
            raise error.located(file=str(file), line=line) from None
        if any((run.shape, run.plan) == (known.shape, known.plan) for known in runs):
            raise InputError(
                f"{run.plan} on {run.shape} occurs twice", file=str(file), line=line, field="plan"
            )
        runs.append(run)
    if not runs:
        raise InputError("has no rows", file=str(file))
    return runs


def _run(row: dict[str, str]) -> Run:
    if None in row or None in row.values():
        raise InputError(f"must have {len(row) - (None in row)} cells")
    seconds = _number(row, "iteration_s")
    plan = ExecutionPlan.parse(row["plan"])
    phases: tuple[Phase, ...] = ()
    filled = [name for name in PHASE_COLUMNS if row.get(name, "").strip()]
    if filled:
        for name in PHASE_COLUMNS:
            if name not in filled:
                raise InputError("is empty while other phases are given", field=name)
        require_finite("iteration_s", seconds, above=0.0)
        forward, sync, optimizer = (_number(row, name) for name in PHASE_COLUMNS)
        phases = phases_of(plan, seconds, (forward, sync, optimizer))
    return Run(Shape.parse(row["shape"]), plan, seconds, phases)


def _number(row: dict[str, str], name: str) -> float:
    try:
        return float(row[name])
    except ValueError:
        raise InputError(f"must be a number, got {row[name]!r}", field=name) from None


def runs_to_csv(runs: Iterable[Run]) -> str:
    """Text that `read_runs` reads back; phases are not written."""
    lines = [",".join(COLUMNS)]
    lines += [f"{run.shape},{run.plan},{run.iteration_s!r}" for run in runs]
    return "\n".join(lines) + "\n"
