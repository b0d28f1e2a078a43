"""Measured runs of the published table: read with their phases, what it cannot mean refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents import read_rows
from morph_opt.core.domain import ExecutionPlan, InputError, Shape
from morph_opt.inputs.perf.analytic.phases import Phase, Timers, phases_of
from morph_opt.inputs.perf.fitting.runs import Run

PUBLIC_LABELS = {
    "ga": "dp+ga",
    "gc": "dp+gc",
    "zero-dp": "zero-dp",
    "zero-offload": "zero-offload",
    "zero-offload+gc": "zero-offload+gc",
}
"""Names of the data-parallel plans in the public tables."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A public row that describes no possible run.

    Parameters
    ----------
    line
        Line in the file, the header being 1.
    plan, placement
        As written there.
    reason
        Why it is none.
    """

    line: int
    plan: str
    placement: str
    reason: str


def public_plan(label: str, gpus: int) -> ExecutionPlan:
    """The plan behind a name of the public tables (``"ga"``, ``"248"``, ``"tp+ga"``).

    Raises
    ------
    InputError
        If the name is unknown.
    """
    if label in PUBLIC_LABELS:
        return ExecutionPlan.parse(PUBLIC_LABELS[label])
    if label == "tp+ga":
        return ExecutionPlan.parse(f"pp1-tp{gpus}-dp1+ga")
    if len(label) == 3 and label.isdigit():
        pp, tp, dp = map(int, label)
        return ExecutionPlan.three_d(pp, tp, dp)
    raise InputError(f"unknown plan {label!r}", field="exec_plan")


def read_public(file: Path, timers: Timers | None = None) -> tuple[list[Run], list[Refused]]:
    """Runs of a public ``placements.csv``, and its rows that cannot have been run as written.

    Parameters
    ----------
    timers
        What the phases of the file mean; they are not read if None.

    Raises
    ------
    InputError
        If the file cannot be read or lacks a column.
    """
    runs: list[Run] = []
    refused: list[Refused] = []
    columns = ("exec_plan", "placement", "iter_time", *(_PHASES if timers else ()))
    for row in read_rows(file, columns, None):
        placement, label = row.text("placement"), row.text("exec_plan")
        seconds = row.number("iter_time", at_least=-math.inf)
        parts = [row.number(name, at_least=-math.inf) for name in _PHASES] if timers else []
        try:
            if not (placement.isascii() and placement.isdigit()):
                raise row.error("placement", f"must be digits, got {placement!r}")
            shape = Shape.of(*(int(digit) for digit in placement))
            plan = public_plan(label, shape.gpus)
            phases = _public_phases(plan, seconds, parts, timers) if timers else ()
            runs.append(Run(shape, plan, seconds, phases))
        except InputError as error:
            refused.append(Refused(row.line, label, placement, error.rule))
    return runs, refused


_PHASES = ("forward", "overlap_sync", "optimize")


def _public_phases(
    plan: ExecutionPlan, seconds: float, parts: Sequence[float], timers: Timers
) -> tuple[Phase, ...]:
    """Phases of a public row: in seconds or milliseconds, whichever fits its iteration time."""
    forward, sync, optimizer = parts
    unit = 1.0 if forward + sync + optimizer < 30 * seconds else 1e-3
    return phases_of(plan, seconds, (unit * forward, unit * sync, unit * optimizer), timers)
