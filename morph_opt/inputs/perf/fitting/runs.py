"""Profiled runs of one model, and their CSV file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents import Row, read_rows
from morph_opt.core.domain import ExecutionPlan, InputError, Shape
from morph_opt.core.domain._validate import require_finite, require_iteration_s
from morph_opt.inputs.perf.analytic.phases import Phase, phases_of


@dataclass(frozen=True, slots=True)
class Run:
    """Profiled run of one model.

    Parameters
    ----------
    shape
        GPUs per node.
    plan
        Execution plan.
    iteration_s
        Seconds per iteration, above 0.
    phases
        Parts of the iteration that the run reports; none if only the iteration was timed.
    """

    shape: Shape
    plan: ExecutionPlan
    iteration_s: float
    phases: tuple[Phase, ...] = ()

    def __post_init__(self) -> None:
        require_iteration_s(self.iteration_s)
        self.plan.require_gpus(self.shape.gpus, "the shape has", "shape")


COLUMNS = ("shape", "plan", "iteration_s")
PHASE_COLUMNS = ("forward_s", "sync_s", "optimizer_s")
"""Optional columns, all or none: times of the phases, measured with synchronised timers."""


def read_runs(file: Path) -> list[Run]:
    """Return the runs of a CSV file with lines such as ``8,dp+ga,0.41``.

    With the columns `PHASE_COLUMNS`, a row either fills all three of them (0 where a phase is
    booked with synchronisation, the backward pass) or none.

    Raises
    ------
    InputError
        If the file cannot be read, has other columns or no rows, a row is malformed, or a
        configuration occurs twice.
    """
    runs: dict[tuple[Shape, ExecutionPlan], Run] = {}
    phased: bool | None = None
    for row in read_rows(file, COLUMNS, PHASE_COLUMNS):
        if phased is None:
            phased = _has_phases(row)
        try:
            run = _run(row, phased)
        except InputError as error:
            raise row.located(error) from None
        if runs.setdefault((run.shape, run.plan), run) is not run:
            raise row.error("plan", f"{run.plan} on {run.shape} occurs twice")
    if not runs:
        raise InputError("has no rows", file=str(file))
    return list(runs.values())


def _has_phases(row: Row) -> bool:
    """Return whether the header has all phases; refuse a header with some of them."""
    missing = [name for name in PHASE_COLUMNS if name not in row.cells]
    if 0 < len(missing) < len(PHASE_COLUMNS):
        rule = f"column is missing; {', '.join(PHASE_COLUMNS)} belong together"
        raise InputError(rule, file=row.file, field=missing[0])
    return not missing


def _run(row: Row, phased: bool) -> Run:
    seconds = row.number("iteration_s", at_least=0.0)
    plan = ExecutionPlan.parse(row.text("plan"))
    phases: tuple[Phase, ...] = ()
    filled = [name for name in PHASE_COLUMNS if phased and row.cells[name]]
    if filled:
        require_finite("iteration_s", seconds, above=0.0)
        forward, sync, optimizer = (row.number(n, at_least=0.0) for n in PHASE_COLUMNS)
        phases = phases_of(plan, seconds, (forward, sync, optimizer))
    return Run(Shape.parse(row.text("shape")), plan, seconds, phases)
