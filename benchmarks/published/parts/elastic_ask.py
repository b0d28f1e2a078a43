"""What EasyScale's published pools ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from formulations.arrays import Floats, Ints
from morph_opt.inputs.perf.ests import UNIT_S, ElasticModel


def whole(tau_s: Sequence[str | float]) -> Ints:
    """Seconds as whole numbers of `UNIT_S`; text is read exactly."""
    return np.asarray([round(Fraction(str(tau)) / UNIT_S) for tau in tau_s], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ElasticAsk:
    """A job in a round over pools.

    Parameters
    ----------
    model
        Workers and speeds.
    preferred
        Type whose speed is the reference: one GPU per worker.
    mixed
        Whether it may run on several types at once; otherwise on the preferred one only.
    """

    model: ElasticModel
    preferred: int
    mixed: bool

    def options(self, pools: Sequence[int], *, heter: bool) -> tuple[Ints, Floats]:
        """GPUs by type, and speed relative to the reference."""
        if not (heter and self.mixed):
            pools = [pool if kind == self.preferred else 0 for kind, pool in enumerate(pools)]
        vectors, steps = self.model.vectors(pools)
        return vectors, float(self.model.tau[self.preferred]) / steps.astype(np.float64)
