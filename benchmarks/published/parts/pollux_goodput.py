"""Pollux' goodput: throughput times statistical efficiency, the batch chosen for both.

Source: the publication (OSDI'21) and petuum/adaptdl, branch ``osdi21-artifact`` (Apache-2.0); the
formulas in our words are on ``docs/published-heuristics.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.arrays import Floats

BATCHES = 50
"""Sizes that are tried, in geometric progression."""

_SLACK = 1e-8


@dataclass(frozen=True, slots=True)
class Goodput:
    """Model of a job that may change its batch.

    Parameters
    ----------
    parameters
        Compute constant and per sample, network between nodes constant and per GPU, inside a node
        constant and per GPU (seconds), and the exponent of overlap.
    gradient
        Squared norm and variance.
    first_batch, max_batch
        Samples per step.
    local_batch
        Least and largest per GPU and accumulation step.
    """

    parameters: tuple[float, float, float, float, float, float, float]
    gradient: tuple[float, float]
    first_batch: int
    max_batch: int
    local_batch: tuple[int, int]

    def value(self, nodes: int, gpus: int, local: Floats, accumulations: Floats) -> Floats:
        """Samples of use per second, shape of ``local``."""
        a_c, b_c, a_n, b_n, a_r, b_r, gamma = self.parameters
        compute_s = a_c + b_c * local
        more = max(gpus - 2, _SLACK)
        alone_s = a_r + b_r * more if gpus > 1 else _SLACK
        network_s = a_n + b_n * more if nodes > 1 else alone_s
        last_s = (compute_s**gamma + network_s**gamma) ** (1.0 / gamma)
        batch = gpus * local * (accumulations + 1.0)
        sqr, var = self.gradient
        scale = batch / self.first_batch
        gain = (var + sqr) / (var / scale + sqr)
        found: Floats = batch / (accumulations * compute_s + last_s) * gain / scale
        return found

    def best(self, nodes: int, gpus: int) -> tuple[float, int, int]:
        """Largest goodput, its samples per GPU and its extra accumulation steps.

        Where the least batch, ``least`` on every GPU, is above the largest, sizes are tried from it
        downwards, as published (``optimize`` in ``adaptdl/goodput.py``): what stays is the least
        batch itself, too large as it is. 0 where no size is allowed.
        """
        least, most = self.local_batch
        batch = np.geomspace(max(self.first_batch, least * gpus), self.max_batch, BATCHES)
        share = batch / gpus
        steps = np.ceil(share / most - _SLACK) - 1.0
        if gpus == 1:
            steps = np.where(share > self.first_batch, np.maximum(steps, 1.0), steps)
        local = np.ceil(share / (steps + 1.0) - _SLACK)
        allowed = (least <= local) & (local <= most)
        value = np.where(allowed, self.value(nodes, gpus, local, steps), 0.0)
        k = int(value.argmax())
        return float(value[k]), int(local[k]), int(steps[k])
