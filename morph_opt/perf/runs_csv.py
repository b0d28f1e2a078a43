"""A user's own profiled runs: CSV with the columns shape, plan and iteration_s."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from morph_opt.domain import ExecutionPlan, InputError, Shape
from morph_opt.perf.runs import Run

COLUMNS = ("shape", "plan", "iteration_s")


def read_runs(file: Path) -> list[Run]:
    """Runs of a CSV file such as ``8,dp+ga,0.41``.

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
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise InputError(
            f"must have exactly the columns {','.join(COLUMNS)}", file=str(file), line=1
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
        raise InputError(f"must have {len(COLUMNS)} cells")
    try:
        seconds = float(row["iteration_s"])
    except ValueError:
        raise InputError(
            f"must be a number, got {row['iteration_s']!r}", field="iteration_s"
        ) from None
    return Run(Shape.parse(row["shape"]), ExecutionPlan.parse(row["plan"]), seconds)


def runs_to_csv(runs: Iterable[Run]) -> str:
    """Text that `read_runs` reads back."""
    lines = [",".join(COLUMNS)]
    lines += [f"{run.shape},{run.plan},{run.iteration_s!r}" for run in runs]
    return "\n".join(lines) + "\n"
