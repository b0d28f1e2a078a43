"""Comparison of runs: their figures, and differences to the first where comparable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from morph_opt.core.table import Table
from morph_opt.simulation.metrics.history import Scalar
from morph_opt.simulation.runs.summary import Values
from morph_opt.simulation.runs.views.view import RunView


@dataclass(frozen=True, slots=True)
class Figure:
    """Column of the table of runs.

    Parameters
    ----------
    title
        Header of the column.
    key
        Key in ``summary.json``.
    form
        Formats the number.
    least_is_best
        Whether a smaller number is better; None if neither is.
    bound
        Key of the lower bound over all schedules.
    """

    title: str
    key: str
    form: Callable[[float], str]
    least_is_best: bool | None = None
    bound: str | None = None


def _seconds(value: float) -> str:
    return f"{value:,.0f}"


FIGURES = (
    Figure("average JCT (s)", "avg_jct_s", _seconds, True, "avg_jct_lower_bound_s"),
    Figure("median JCT (s)", "median_jct_s", _seconds, True),
    Figure("p99 JCT (s)", "p99_jct_s", _seconds, True),
    Figure(
        "makespan (h)", "makespan_s", lambda s: f"{s / 3600.0:.2f}", True, "makespan_lower_bound_s"
    ),
    Figure("average queueing (s)", "avg_queue_s", _seconds, True),
    Figure("GPUs in use", "gpu_utilization", lambda share: f"{100.0 * share:.1f} %"),
    Figure("restarts per job", "restarts_per_job", lambda number: f"{number:.2f}"),
    Figure("median round (ms)", "round_ms_p50", lambda ms: f"{ms:.1f}"),
    Figure("p99 round (ms)", "round_ms_p99", lambda ms: f"{ms:.0f}"),
    Figure("largest gap", "gap_max", lambda gap: f"{100.0 * gap:.2g} %"),
)
"""Figures of the table of runs, as in the README."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Figure of a run.

    Parameters
    ----------
    text
        As shown; empty where there is none.
    difference
        Difference to the first run, ``-8.0 %``; empty for it and if runs are not comparable.
    best
        Whether no comparable run is better.
    """

    text: str
    difference: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Table of runs.

    Parameters
    ----------
    header
        Titles of the columns.
    names, rows
        Name and row of each run.
    bounds
        Texts of the last row; empty if no bound is known, runs are not comparable, or jobs are
        left, which the bounds count as complete.
    obstacles
        Sentences on why the runs cannot be compared; empty if they can.
    remarks
        Further sentences for the reader.
    """

    header: tuple[str, ...]
    names: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    bounds: tuple[str, ...]
    obstacles: tuple[str, ...]
    remarks: tuple[str, ...]

    def to_table(self) -> Table:
        """Return a table for a terminal: differences in brackets, the best with an asterisk."""
        rows = [
            (name, *(_plain(cell) for cell in row))
            for name, row in zip(self.names, self.rows, strict=True)
        ]
        if any(self.bounds):
            rows.append(("no schedule is below", *self.bounds))
        return Table(("run", *self.header), rows)


def _plain(cell: Cell) -> str:
    difference = f" ({cell.difference})" if cell.difference else ""
    return f"{'*' if cell.best else ''}{cell.text}{difference}"


def compare(views: Sequence[RunView]) -> Comparison:
    """Compare these runs, at least one."""
    obstacles = tuple(_obstacles(views))
    comparable = not obstacles
    values = [view.values for view in views]
    columns = [_column(figure, values, comparable) for figure in FIGURES]
    shown = [
        (figure, column)
        for figure, column in zip(FIGURES, columns, strict=True)
        if any(cell.text for cell in column)
    ]
    whole = all(view.run.summary.completed == view.run.summary.jobs for view in views)
    bounds = [_bound(figure, values) if comparable and whole else "" for figure, _ in shown]
    return Comparison(
        tuple(figure.title for figure, _ in shown),
        tuple(view.name for view in views),
        tuple(zip(*(column for _, column in shown), strict=True)),
        tuple(bounds),
        obstacles,
        tuple(_remarks(views)),
    )


def number(value: Scalar) -> float:
    """Return the value if it is a number, else NaN."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else math.nan  # type: ignore[arg-type]


def _column(figure: Figure, values: Sequence[Values], comparable: bool) -> list[Cell]:
    numbers = [number(one.get(figure.key)) for one in values]
    known = [n for n in numbers if not math.isnan(n)]
    several = comparable and len(values) > 1
    best = min(known, default=math.nan) if several and figure.least_is_best else math.nan
    cells = []
    for place, value in enumerate(numbers):
        if math.isnan(value):
            cells.append(Cell(""))
            continue
        difference = ""
        if several and place and figure.least_is_best is not None and numbers[0] > 0.0:
            difference = f"{100.0 * (value / numbers[0] - 1.0):+.1f} %"
        cells.append(Cell(figure.form(value), difference, value == best))
    return cells


def _bound(figure: Figure, values: Sequence[Values]) -> str:
    """Return the smallest lower bound over the runs; "" if one is unknown."""
    if figure.bound is None:
        return ""
    found = [number(one.get(figure.bound)) for one in values]
    return "" if any(map(math.isnan, found)) else figure.form(min(found))


def _obstacles(views: Sequence[RunView]) -> list[str]:
    """Return the differences to the first run that make figures incomparable."""
    first, *others = views
    found = [line for other in others for line in unlike(first, other)]
    if len(views) > 1:
        for view in views:
            if view.run.summary.completed < view.run.summary.jobs:
                done = f"{view.run.summary.completed} of {view.run.summary.jobs}"
                found.append(f"{view.name} completes {done} jobs: its averages are of those alone.")
    return found


def unlike(first: RunView, other: RunView) -> list[str]:
    """Return sentences on conditions in which two runs differ; empty if jobs can be paired."""
    found = []
    for what, of in _CONDITIONS.items():
        if of(first) != of(other):
            shown = _shown(of(other)), _shown(of(first))
            pair = f": {shown[0]} and {shown[1]}" if all(shown) and shown[0] != shown[1] else ""
            found.append(f"{other.name} and {first.name} have another {what}{pair}.")
    return found


def _trace(view: RunView) -> object:
    return view.run.summary.trace, view.run.summary.trace_sha256


def _cluster(view: RunView) -> object:
    return view.cluster or (view.nodes.gpus, view.values.get("cluster"))


def _restarts(view: RunView) -> object:
    """Return the costs of a change, from the config or else from the summary."""
    engine = view.settings.get("engine")
    if not isinstance(engine, dict):
        return view.values.get("restart_s")
    names = ["restart_s", "restart_s_by_model", "lost_work_s"]
    if engine.get("at_stop", "keep") != "keep":
        names += ["at_stop", "checkpoint_s", "checkpoint_s_by_model"]
    return tuple((name, repr(engine.get(name))) for name in names)


def _outages(view: RunView) -> object:
    return tuple((o.node, o.start_s, o.status) for o in view.outages)


_CONDITIONS: dict[str, Callable[[RunView], object]] = {
    "trace": _trace,
    "cluster": _cluster,
    "restart cost": _restarts,
    "set of node failures": _outages,
}


def _shown(value: object) -> str:
    """Return a condition as a short text; "" if it has none."""
    name = getattr(value, "name", None)
    if isinstance(name, str):
        return name
    if isinstance(value, tuple) and value and isinstance(value[0], str | float):
        return f"{value[0]:g} s" if isinstance(value[0], float) else value[0]
    return f"{value:g} s" if isinstance(value, float) else ""


def _remarks(views: Sequence[RunView]) -> list[str]:
    summaries = [view.run.summary for view in views]
    found = []
    promised = [number(s.values.get("guaranteed_jobs")) for s in summaries]
    if len(views) > 1 and max(promised) > 0 and len({s.objective is None for s in summaries}) > 1:
        found.append(
            "Some jobs are guaranteed; policies without a MILP know no guarantees, so their "
            "averages are not bought at the same price."
        )
    if len({tuple(sorted(view.versions.items())) for view in views}) > 1:
        found.append("The runs were made with different versions of the software.")
    for view, summary in zip(views, summaries, strict=True):
        if summary.rounds_over_capacity:
            found.append(f"{view.name}: {summary.rounds_over_capacity} rounds over capacity.")
        if summary.fallback_rounds:
            found.append(f"{view.name}: {summary.fallback_rounds} rounds fell back.")
        if summary.late_jobs:
            found.append(
                f"{view.name}: {summary.late_jobs} jobs were due and could not start, at most for "
                f"{summary.late_max_s:,.0f} s."
            )
    return found
