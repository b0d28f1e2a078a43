"""Tidy tables of a run, as CSV or Parquet: SI units in the names, the run in the first column."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from morph_opt.core.domain import InputError
from morph_opt.core.table import Table
from morph_opt.simulation.runs.views.explanations import read_prices
from morph_opt.simulation.runs.views.view import RunView

TABLES = ("jobs", "groups", "segments", "rounds", "prices", "summary")
"""Names of the tables in order; one without rows is left out."""


PRICES = (
    "round", "time_s", "node_type", "gpu_type", "leaf", "nodes", "price_per_gpu_s", "unit",
)  # fmt: skip
"""Columns of the table of prices."""


def tidy_tables(view: RunView, run: str) -> dict[str, Table]:
    """Return the tidy tables of a run by name.

    Parameters
    ----------
    view
        The run.
    run
        Text of the first column.

    Raises
    ------
    InputError
        If a file of the run folder is damaged.
    """
    made: dict[str, Callable[[], Table]] = {
        "jobs": view.run.jobs.to_table,
        "groups": view.run.groups.to_table,
        "segments": lambda: _segments(view),
        "rounds": view.run.rounds.to_table,
        "prices": lambda: _prices(view),
        "summary": lambda: Table(("name", "value"), [*view.values.items()]),
    }
    found = {name: made[name]() for name in TABLES}
    return {
        name: Table(("run", *table.header), [(run, *row) for row in table.rows])
        for name, table in found.items()
        if table.rows
    }


def parquet_bytes(table: Table) -> bytes:
    """Return the table as a Parquet file; equal tables give equal bytes.

    Raises
    ------
    InputError
        If pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        rule = "needs pyarrow: pip install pyarrow"
        raise InputError(rule, field="--format") from error
    columns: Mapping[str, list[Any]] = {
        name: [_one_kind(row[place]) for row in table.rows]
        for place, name in enumerate(table.header)
    }
    mixed = {name: [*map(_text, values)] for name, values in columns.items() if _is_mixed(values)}
    buffer = io.BytesIO()
    pq.write_table(pa.table({**columns, **mixed}), buffer)
    return buffer.getvalue()


def _is_mixed(values: list[Any]) -> bool:
    """Return whether a column has both texts and numbers, as the summary's has."""
    return len({isinstance(value, str) for value in values if value is not None}) > 1


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _one_kind(value: Any) -> Any:
    """Return None for NaN, because Parquet has nulls."""
    return None if isinstance(value, float) and value != value else value


def _segments(view: RunView) -> Table:
    """Return the table of segments, from which timelines are drawn."""
    header = (
        "job", "segment", "node", "first_gpu", "last_gpu", "start_s", "startup_until_s", "end_s",
        "plan", "kind", "ended_by", "partner",
    )  # fmt: skip
    return Table(header, list(_segment_rows(view)))


def _segment_rows(view: RunView) -> Iterator[tuple[Any, ...]]:
    blocks, jobs, names = view.rectangles, view.jobs, view.nodes.names
    place = {
        number: at for numbers in view.segments_by_job.values() for at, number in enumerate(numbers)
    }
    for row in range(len(blocks)):
        number, partner = int(blocks.segment[row]), int(blocks.partner[row])
        job, segment = view.segments[number]
        start_s, end_s = float(blocks.start_s[row]), float(blocks.end_s[row])
        until_s = min(max(float(blocks.startup_until_s[row]), start_s), end_s)
        yield (
            jobs[job].job,
            place[number],
            names[int(blocks.node[row])],
            int(blocks.first_gpu[row]),
            int(blocks.last_gpu[row]),
            start_s,
            until_s,
            end_s,
            segment.plan,
            str(segment.kind),
            segment.ended_by,
            None if partner < 0 else jobs[partner].job,
        )


def _prices(view: RunView) -> Table:
    cells = [
        (p.round, p.time_s, p.node_type, p.gpu_type, p.leaf, p.nodes, p.per_gpu_s, p.unit)
        for p in read_prices(view)
    ]
    return Table(PRICES, cells)
