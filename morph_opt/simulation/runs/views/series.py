"""Counts over time: GPUs held, GPUs that make progress, available GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats
from formulations.tolerances import FEASIBILITY
from morph_opt.simulation.runs.views.view import RunView


@dataclass(frozen=True, slots=True)
class Steps:
    """Quantity that is constant between instants.

    Parameters
    ----------
    time_s
        Instants, ascending, shape (n,).
    value
        Value from each instant on, shape (n,); undefined before the first.
    """

    time_s: Floats
    value: Floats

    @classmethod
    def of_intervals(cls, start_s: Floats, end_s: Floats, amount: Floats, last_s: float) -> Steps:
        """Return the sum of amounts that last from a start to an end, until ``last_s``."""
        times = np.concatenate((start_s, end_s, [0.0, last_s]))
        changes = np.concatenate((amount, -amount, [0.0, 0.0]))
        instants, inverse = np.unique(times, return_inverse=True)
        value = np.cumsum(np.bincount(inverse, weights=changes, minlength=len(instants)))
        return cls(instants, np.where(np.abs(value) < FEASIBILITY, 0.0, value))

    def mean(self, edges_s: Floats) -> Floats:
        """Return exact means between neighbouring edges, shape (len(edges_s) - 1,)."""
        whole = np.concatenate(([0.0], np.cumsum(self.value[:-1] * np.diff(self.time_s))))
        at_edges = np.interp(edges_s, self.time_s, whole)
        return np.diff(at_edges) / np.diff(edges_s)

    def thinned(self, most: int) -> Steps:
        """Return the steps, or means over ``most`` equal bins if there are more steps."""
        if len(self.time_s) <= most or self.time_s[-1] <= self.time_s[0]:
            return self
        edges = np.linspace(self.time_s[0], self.time_s[-1], most + 1)
        means = self.mean(edges)
        return Steps(edges, np.append(means, means[-1]))


def gpus_held(view: RunView, gpu_type: str | None = None, *, productive: bool = False) -> Steps:
    """Return the number of GPUs held over time, or of those past their start-up.

    Parameters
    ----------
    view
        The run.
    gpu_type
        Type to count; None for all.
    productive
        Whether to leave out start-ups.
    """
    r = view.rectangles
    kept = np.ones(len(r), dtype=bool)
    if gpu_type is not None:
        kept = np.asarray([name == gpu_type for name in view.nodes.gpu_types])[r.node]
    start_s = np.clip(r.startup_until_s, r.start_s, r.end_s) if productive else r.start_s
    return Steps.of_intervals(start_s[kept], r.end_s[kept], (r.top - r.bottom)[kept], view.end_s)


def gpus_there(view: RunView) -> Steps:
    """Return the number of GPUs on nodes that have not failed, over time."""
    away = [one for one in view.outages if one.status == "failed"]
    start_s = np.asarray([0.0, *(one.start_s for one in away)])
    end_s = np.asarray([view.end_s, *(one.end_s for one in away)])
    amount = [view.nodes.total, *(-view.nodes.gpus[one.node] for one in away)]
    return Steps.of_intervals(start_s, end_s, np.asarray(amount, dtype=np.float64), view.end_s)
