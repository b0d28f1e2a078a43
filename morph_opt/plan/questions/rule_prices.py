"""Price of operator's rules: differences of waits and GPU-hours, in all and by queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from morph_opt.core.domain.units import HOUR_S
from morph_opt.plan.stats import Paired, holm, paired
from morph_opt.simulation.runs.jobs import JobRow

Rows = Sequence[JobRow]

_WAITS: Mapping[str, Callable[[Rows], float]] = {
    "avg waiting_s": lambda jobs: float(np.mean([row.waiting_s for row in jobs])),
    "p90 waiting_s": lambda jobs: float(np.quantile([row.waiting_s for row in jobs], 0.9)),
}
"""Figures of the waits of some jobs, by name."""

_FIGURES: Mapping[str, Callable[[Rows], float]] = {
    **_WAITS,
    "GPU-hours": lambda jobs: sum(row.gpu_s_held for row in jobs) / HOUR_S,
    "GPU-hours lost": lambda jobs: sum(row.gpu_s_lost for row in jobs) / HOUR_S,
    "evictions": lambda jobs: float(sum(row.preemptions for row in jobs)),
}
"""Figures of some jobs, by name."""


def prices_of_rules(
    runs: Sequence[Rows], names: Sequence[str], workloads: int, confidence: float
) -> tuple[list[list[str | int | float | None]], list[str]]:
    """Compare every variant with the first over all jobs and over those of each queue.

    Parameters
    ----------
    runs
        Rows of jobs of each run: those of the first variant for each workload, then of the others.
    names
        Names of the variants.
    workloads
        Number of workloads of each variant.
    confidence
        Confidence level of the intervals.

    Returns
    -------
    tuple
        Rows of evidence, and a sentence per difference in waits whose interval leaves out 0.
        p-values are adjusted over all of these figures together.
    """
    of_variant = [runs[k * workloads : (k + 1) * workloads] for k in range(len(names))]
    found = {
        (group, figure, name): (values, paired(first, values, confidence))
        for group, picked in _groups(runs).items()
        for figure, of in _FIGURES.items()
        if (first := [of(picked(jobs)) for jobs in of_variant[0]])
        for name, mine in zip(names[1:], of_variant[1:], strict=True)
        if (values := [of(picked(jobs)) for jobs in mine])
    }
    adjusted = holm({repr(key): one.p for key, (_, one) in found.items()})
    rows: list[list[str | int | float | None]] = []
    said: list[str] = []
    for (group, figure, name), (values, one) in found.items():
        differs = one.mean, one.low, one.high, one.p, adjusted[repr((group, figure, name))]
        mean = sum(values) / len(values)
        rows.append([f"{group}: {figure}: {name}", mean, *differs, one.pairs, one.gain, "replay"])
        if figure in _WAITS and _is_shown(one):
            said.append(
                f"{group}: {figure} is {abs(one.mean):.6g} {'lower' if one.mean < 0 else 'higher'} "
                f"under {name} ({one.low:.6g} to {one.high:.6g})"
            )
    return rows, said


def _is_shown(one: Paired) -> bool:
    return not math.isnan(one.low) and (one.low > 0.0 or one.high < 0.0)


def _groups(runs: Sequence[Rows]) -> dict[str, Callable[[Rows], Rows]]:
    """Return functions that pick all jobs, and the jobs of each queue that every run has."""
    queues = [{row.tenant for row in jobs} for jobs in runs]
    common = sorted(set.intersection(*queues)) if queues else []
    found: dict[str, Callable[[Rows], Rows]] = {"all jobs": lambda jobs: jobs}
    for queue in common if len(common) > 1 else ():
        found[f"queue {queue}"] = partial(_of_queue, queue)
    return found


def _of_queue(queue: str, jobs: Rows) -> Rows:
    return [row for row in jobs if row.tenant == queue]
