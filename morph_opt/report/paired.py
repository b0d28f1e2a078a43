"""Comparison of two runs of the same trace, job by job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import InputError
from morph_opt.core.table import Table
from morph_opt.simulation.metrics.fairness import SIZES
from morph_opt.simulation.runs.jobs import JobRow
from morph_opt.simulation.runs.views.view import RunView

SAME_S = 0.5
"""Difference in seconds below which completion times count as equal."""
LARGEST = 5
"""Number of jobs named at either end of the differences."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Completion times of the jobs that completed in both of two runs.

    Parameters
    ----------
    rows
        Jobs of the first run, in its order.
    first_s, second_s
        Completion times in the first and in the second run, shape (jobs,).
    """

    rows: tuple[JobRow, ...]
    first_s: Floats
    second_s: Floats

    @property
    def difference_s(self) -> Floats:
        """Completion time in the second run minus that in the first, in seconds."""
        return self.second_s - self.first_s


def pair_jobs(first: RunView, second: RunView) -> Pairing:
    """Pair the jobs that completed in both runs.

    Raises
    ------
    InputError
        If the runs are not of the same trace.
    """
    digests = [view.run.summary.trace_sha256 for view in (first, second)]
    if digests[0] != digests[1]:
        raise InputError("is not a run of the same trace", file=second.file(""), field="RUN")
    others = {row.job: row for row in second.jobs if row.completed}
    rows = tuple(row for row in first.jobs if row.completed and row.job in others)
    return Pairing(
        rows,
        np.asarray([row.jct_s for row in rows], dtype=np.float64),
        np.asarray([others[row.job].jct_s for row in rows], dtype=np.float64),
    )


def size_class(row: JobRow) -> str:
    """Return ``small``, ``medium`` or ``large``, by the GPUs requested."""
    gpus = row.gpus
    return next(name for name, low, high in SIZES if low <= gpus <= high)


def differences(pairing: Pairing) -> Table:
    """Return differences of completion times over all jobs and by size class, in seconds."""
    groups: dict[str, Callable[[JobRow], bool]] = {"all": lambda _: True}
    for name, low, high in SIZES:
        label = f"{name} ({low} GPU)" if low == high else f"{name} ({low} GPUs and more)"
        label = f"{name} ({low} to {high} GPUs)" if low < high < 1 << 20 else label
        groups[label] = lambda row, name=name: size_class(row) == name  # type: ignore[misc]
    rows = []
    for label, holds in groups.items():
        chosen = np.asarray([holds(row) for row in pairing.rows], dtype=bool)
        changes = pairing.difference_s[chosen]
        if changes.size:
            low, middle, high = np.quantile(changes, (0.1, 0.5, 0.9))
            earlier, later = int((changes < -SAME_S).sum()), int((changes > SAME_S).sum())
            counts = changes.size, earlier, changes.size - earlier - later, later
            rows.append((label, *counts, *map(float, (changes.mean(), low, middle, high))))
    header = ("jobs", "number", "earlier", "same", "later", "mean", "p10", "median", "p90")
    return Table(header, rows, formats=dict.fromkeys(header[5:], "+,.0f"))


def largest(pairing: Pairing, first: str, second: str) -> Table:
    """Return the jobs that gain and lose most."""
    changes = pairing.difference_s
    order = np.lexsort((np.arange(len(changes)), changes)).tolist()
    chosen = dict.fromkeys([*order[:LARGEST], *order[-LARGEST:]])
    rows = []
    for i in (i for i in chosen if abs(changes[i]) > SAME_S):
        row, times = pairing.rows[i], (pairing.first_s[i], pairing.second_s[i], changes[i])
        rows.append((row.job, row.model, row.gpus, *map(float, times)))
    jct = [f"JCT by {name} (s)" for name in (first, second)]
    header = ("job", "model", "GPUs asked for", *jct, "difference (s)")
    formats = {header[3]: ",.0f", header[4]: ",.0f", header[5]: "+,.0f"}
    return Table(header, rows, "llr", formats if first != second else {})
