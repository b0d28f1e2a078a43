"""EasyScale's steps: a fixed number of workers (ESTs) on any GPUs, several taking turns on one.

With ``n_t`` GPUs of type t, on which one worker takes ``tau_t`` seconds per mini-batch, M workers
take the least S among the multiples ``k tau_t`` with ``sum_t n_t floor(S / tau_t) >= M``. Times are
whole numbers of a small unit, so that ``floor`` is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from formulations.arrays import Floats, Ints

UNIT_S = Fraction(1, 10**7)
"""Of whole times."""


def whole(tau_s: Sequence[str | float]) -> Ints:
    """Seconds as whole numbers of `UNIT_S`; text is read exactly."""
    return np.asarray([round(Fraction(str(tau)) / UNIT_S) for tau in tau_s], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ElasticModel:
    """A job's workers and their speed on every type.

    Parameters
    ----------
    workers
        M, fixed for the job's life.
    tau
        Time of one worker's mini-batch by type, in units of `UNIT_S`, shape (T,).
    """

    workers: int
    tau: Ints

    @property
    def levels(self) -> Ints:
        """All times that a step can take, ascending, shape (L,)."""
        turns = np.arange(1, self.workers + 1, dtype=np.int64)
        return np.unique((turns[:, None] * self.tau[None, :]).ravel())

    def steps(self, vectors: Ints) -> Ints:
        """Time of a step on GPUs by type, shape (V,) of (V, T); 0 where there are none."""
        levels = self.levels
        turns = levels[:, None] // self.tau[None, :]
        done = vectors @ turns.T >= self.workers
        found: Ints = np.where(done.any(axis=1), levels[done.argmax(axis=1)], 0)
        return found

    def step_s(self, vector: Sequence[int]) -> float:
        """Seconds of a step on GPUs by type."""
        step = self.steps(np.asarray([vector], dtype=np.int64))[0]
        return float(int(step) * UNIT_S)

    def waste(self, vectors: Ints, steps: Ints) -> Floats:
        """Share of the GPUs' speed that a step leaves unused, shape (V,)."""
        speed = vectors @ (1.0 / self.tau.astype(np.float64))
        found: Floats = 1.0 - self.workers / steps.astype(np.float64) / speed
        return found

    def vectors(self, pools: Sequence[int]) -> tuple[Ints, Ints]:
        """GPUs by type within pools that no other vector dominates, and their steps.

        A vector is dominated if one GPU less gives the same step: steps never grow with GPUs.
        """
        axes = [np.arange(min(pool, self.workers) + 1, dtype=np.int64) for pool in pools]
        every = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(pools))
        every = every[every.any(axis=1)]
        steps = self.steps(every)
        kept = steps > 0
        for kind in range(len(pools)):
            fewer = every.copy()
            fewer[:, kind] = np.maximum(fewer[:, kind] - 1, 0)
            less = self.steps(fewer)
            kept &= ~((every[:, kind] > 0) & (less > 0) & (less <= steps))
        return every[kept], steps[kept]


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
