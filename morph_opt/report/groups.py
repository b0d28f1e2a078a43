"""Groups of jobs by model, tenant, promise and size, for colours and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morph_opt.core.documents.style import OTHER
from morph_opt.report.paired import size_class
from morph_opt.simulation.runs.jobs import JobRow
from morph_opt.simulation.runs.views.view import RunView

LONGEST_LABEL = 60
"""Largest number of characters of a label."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """Grouping of jobs by one property.

    Parameters
    ----------
    key, title
        Short name, and the word for a reader.
    labels
        Names of the groups, the one with most GPU-seconds first; at most one per colour.
    codes
        Index of each job's group, shape (jobs,).
    """

    key: str
    title: str
    labels: tuple[str, ...]
    codes: npt.NDArray[np.uint8]


_WAYS: Mapping[str, tuple[str, Callable[[JobRow], str]]] = {
    "model": ("model", lambda row: row.model),
    "tenant": ("tenant", lambda row: row.tenant),
    "guaranteed": ("promise", lambda row: "guaranteed" if row.guaranteed else "not guaranteed"),
    "size": ("size asked for", size_class),
}


def groupings(view: RunView) -> tuple[Grouping, ...]:
    """Return the groupings with several groups in the run, and always the one by model."""
    found = [_grouping(view, key) for key in _WAYS]
    return tuple(one for one in found if len(one.labels) > 1 or one.key == "model")


def _grouping(view: RunView, key: str) -> Grouping:
    title, of = _WAYS[key]
    names = [of(row) for row in view.jobs]
    gpu_s: dict[str, float] = {}
    for name, row in zip(names, view.jobs, strict=True):
        gpu_s[name] = gpu_s.get(name, 0.0) + row.gpu_s_held
    order = sorted(gpu_s, key=lambda name: (-gpu_s[name], name))
    shown = order if len(order) <= OTHER else order[:OTHER]
    code = {name: place for place, name in enumerate(shown)}
    labels = [short(name) for name in shown]
    if len(order) > OTHER:
        labels.append(f"{len(order) - OTHER} others")
    codes = np.asarray([code.get(name, OTHER) for name in names], dtype=np.uint8)
    return Grouping(key, title, tuple(labels), codes)


def short(text: str, most: int = LONGEST_LABEL) -> str:
    """Cut a text that is too long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def label(text: str, most: int = LONGEST_LABEL) -> str:
    """Cut a text for an axis or a legend, and escape what Bokeh would take for TeX."""
    plain = short(text, most)
    for mark in ("$$", "\\(", "\\["):
        plain = plain.replace(mark, f"{mark[0]}\u200b{mark[1]}")
    return plain
