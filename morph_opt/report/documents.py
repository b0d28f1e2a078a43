"""Bokeh documents as JSON that is the same for the same run, and Bokeh's own script."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from morph_opt.report.drawing.charts import (
    MEASURES,
    MOST_NAMED,
    TimeAxis,
    TimeCharts,
    draw_distribution,
    draw_pairs,
)
from morph_opt.report.drawing.gantt import draw_gantt
from morph_opt.report.groups import groupings, label, short
from morph_opt.report.pairs import Pairs
from morph_opt.simulation.runs.views.explanations import Price, Wait
from morph_opt.simulation.runs.views.view import RunView

if TYPE_CHECKING:
    from bokeh.model import Model

_ID = re.compile(r"p\d+")
ENDS = ("complete", "cancel", "change", "policy", "node-failure", "end")
"""Events that end a segment, by code."""
NUMBERS = (
    "gpus", "submission_s", "finish_s", "queued_s", "jct_s", "stretch", "restarts", "preemptions",
    "gpu_s_held",
)  # fmt: skip
"""Columns of ``jobs.csv`` that the page shows as numbers."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Document as it is embedded in the page.

    Parameters
    ----------
    text
        Compressed JSON, base64.
    roots
        Names of the charts, in the order of the document's roots; empty for data.
    """

    text: str
    roots: tuple[str, ...]


@cache
def bokeh_script() -> tuple[str, str]:
    """Return the version of Bokeh, and its script, packed."""
    import bokeh
    from bokeh.resources import Resources

    (script,) = Resources(mode="inline", components=["bokeh"]).js_raw[:1]
    return bokeh.__version__, pack(script)


def pack(text: str) -> str:
    """Compress a text to base64, which holds no markup."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def run_document(view: RunView, end_s: float, prices: Sequence[Price]) -> Packed:
    """Return the charts of one run up to an instant, and its jobs and segments as columns."""
    from bokeh.models import ColumnDataSource, Range1d

    axis = TimeAxis.until(end_s)
    end = end_s / axis.unit_s
    x_range = Range1d(0, end, bounds=(-0.02 * end, 1.02 * end), name="time")
    longest = max((len(name) for name in view.nodes.names), default=0)
    left_px = 60 + 7 * min(longest, 16)
    charts = TimeCharts(view, x_range, axis, left_px)
    drawn: list[Model] = [draw_gantt(view, x_range, axis, left_px), charts.jobs(), charts.gpus()]
    if prices:
        drawn.append(charts.prices(prices))
    if not np.isnan(view.run.summary.gap_max):
        drawn.append(charts.gaps())
    drawn.append(charts.times())
    if view.values.get("guaranteed_jobs"):
        drawn.append(charts.short())
    data = [
        ColumnDataSource(name="jobs", data=job_columns(view)),
        ColumnDataSource(name="segments", data=segment_columns(view)),
    ]
    return _packed([*drawn, *data])


def overview_document(views: Sequence[RunView], pairs: Pairs) -> Packed:
    """Return the charts of all runs together."""
    from bokeh.models import ColumnDataSource

    drawn: list[Model] = [draw_distribution(views, column) for column in MEASURES]
    if pairs.found:
        jobs, columns = pairs.completions()
        known = np.concatenate([column[np.isfinite(column)] for column in columns.values()])
        ends = max(0.8 * float(known.min()), 1e-3), 1.25 * float(known.max())
        first, second = (pairs.names[place] for place in pairs.shown)
        drawn.append(draw_pairs(first, second, pairs.found[pairs.shown], ends))
        if len(views) > 2:
            data: dict[str, Any] = {f"run{k}": v.astype(np.float32) for k, v in columns.items()}
            if len(jobs) <= MOST_NAMED:
                data["name"] = [short(job) for job in jobs]
            drawn.append(ColumnDataSource(name="completions", data=data))
    return _packed(drawn)


def pairs_data(pairs: Pairs) -> Packed:
    """Return sentences and tables on every two runs."""
    content = {"labels": [label(name) for name in pairs.names], "choices": pairs.choices()}
    return Packed(pack(json.dumps(content, separators=(",", ":"))), ())


def _packed(models: Sequence[Model]) -> Packed:
    from bokeh.document import Document

    document = Document(title="morph-opt")
    for model in models:
        document.add_root(model)
    plain: Any = document.to_json(deferred=False)
    text = json.dumps(_renumbered(plain, {}), separators=(",", ":"), allow_nan=False)
    return Packed(pack(text), tuple(str(model.name) for model in models))


def _renumbered(value: Any, known: dict[str, str]) -> Any:
    """Renumber ids from 1 within this document; Bokeh counts them through the process.

    Data that happens to look like an id is text in a list, never an object's ``id``.
    """
    if isinstance(value, list):
        return [_renumbered(item, known) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _renumbered(item, known) for key, item in value.items() if key != "id"}
    if "id" in value:
        id_ = value["id"]
        if isinstance(id_, str) and _ID.fullmatch(id_):
            id_ = known.setdefault(id_, f"p{len(known) + 1}")
        plain["id"] = id_
    return plain


def _codes(texts: Sequence[str]) -> tuple[list[str], Any]:
    """Return the distinct texts, and the index of each text among them."""
    known: dict[str, int] = {}
    codes = [known.setdefault(text, len(known)) for text in texts]
    return list(known), np.asarray(codes, dtype=np.int32)


def job_columns(view: RunView) -> dict[str, Any]:
    """Return jobs as columns: numbers as arrays, repeated texts by index (``X_names``)."""
    jobs = view.jobs
    found: dict[str, Any] = {"name": [row.job for row in jobs]}
    for name, texts in {
        "model": [row.model for row in jobs],
        "tenant": [row.tenant for row in jobs],
        "plan": [row.last_plan for row in jobs],
    }.items():
        found[f"{name}_names"], found[name] = _codes(texts)
    for name in NUMBERS:
        values = np.asarray(view.run.jobs.column(name), dtype=np.float64)
        exact = name in ("submission_s", "finish_s")
        found[name] = values if exact else values.astype(np.float32)
    found["guaranteed"] = np.asarray([row.guaranteed for row in jobs], dtype=np.uint8)
    for grouping in groupings(view):
        found[f"group_{grouping.key}"] = grouping.codes
    return _padded(found, len(jobs))


def segment_columns(view: RunView) -> dict[str, Any]:
    """Return segments as columns, by job and time."""
    segments = [segment for _, segment in view.segments]
    plans, codes = _codes([segment.plan for segment in segments])
    lost_s = [min(s.iterations_lost * s.iteration_s, s.held_s - s.startup_s) for s in segments]
    found: dict[str, Any] = {
        "job": np.asarray([job for job, _ in view.segments], dtype=np.int32),
        "start_s": np.asarray([s.start_s for s in segments]),
        "end_s": np.asarray([s.end_s for s in segments]),
        "startup_s": np.asarray([s.startup_s for s in segments], dtype=np.float32),
        "lost_s": np.asarray(lost_s, dtype=np.float32),
        "gpus": np.asarray([s.gpus for s in segments], dtype=np.int32),
        "ended": np.asarray([ENDS.index(s.ended_by) for s in segments], dtype=np.uint8),
        "plan_names": plans,
        "plan": codes,
    }
    return _padded(found, len(segments))


def _padded(columns: dict[str, Any], rows: int) -> dict[str, Any]:
    """Pad lists of names to the length of columns, as Bokeh needs equal lengths."""
    return {
        name: [*value, *([""] * (rows - len(value)))] if name.endswith("_names") else value
        for name, value in columns.items()
    }


def waits_data(view: RunView, waits: Mapping[str, Sequence[Wait]]) -> Packed:
    """Return, by job, the intervals and rounds of waiting with the indices of their reasons."""
    texts: dict[str, int] = {}
    by_job = {
        view.job_index[name]: [
            [wait.from_s, wait.until_s, wait.rounds, texts.setdefault(wait.why, len(texts))]
            for wait in found
        ]
        for name, found in waits.items()
        if name in view.job_index
    }
    return Packed(pack(json.dumps([list(texts), by_job], separators=(",", ":"))), ())
