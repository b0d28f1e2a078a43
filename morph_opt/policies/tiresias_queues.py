"""Gittins index and queue rules of Tiresias (NSDI'19), as plain functions of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from morph_opt.domain import InputError

Floats = npt.NDArray[np.float64]

QUEUE_LIMITS_GPU_S = (3250.0, 7200.0)
"""Attained service at which a job leaves the first and the second queue (published code)."""

QUANTUM_GPU_S = 3250.0
"""Quantum D of the Gittins index (published code)."""


@dataclass(frozen=True, slots=True)
class GittinsIndex:
    """Gittins index of a job from samples of total GPU time.

    For attained service a and quantum D, over the samples S > a (Tiresias, section 4.2)::

        index(a) = P(S - a <= D) / E[min(S - a, D)]

    The larger, the sooner the job is likely to end per GPU-second spent on it: highest first.

    Parameters
    ----------
    samples_gpu_s
        GPU-seconds of complete jobs, ascending, each above 0.
    quantum_gpu_s
        D, above 0.
    """

    samples_gpu_s: Floats
    quantum_gpu_s: float = QUANTUM_GPU_S

    def __post_init__(self) -> None:
        samples = self.samples_gpu_s
        if samples.size == 0:
            raise InputError("needs at least one sample", field="samples_gpu_s")
        if not np.isfinite(samples).all() or samples.min() <= 0 or (np.diff(samples) < 0).any():
            raise InputError("must be positive and ascending", field="samples_gpu_s")
        if not self.quantum_gpu_s > 0:
            raise InputError(f"must be above 0, got {self.quantum_gpu_s:g}", field="quantum_gpu_s")

    @classmethod
    def of(cls, samples_gpu_s: npt.ArrayLike, quantum_gpu_s: float = QUANTUM_GPU_S) -> GittinsIndex:
        """The index of samples in any order."""
        return cls(np.sort(np.asarray(samples_gpu_s, dtype=np.float64)), quantum_gpu_s)

    def exact(self, attained_gpu_s: float) -> float:
        """Index in 1 per GPU-second; 0 beyond the largest sample."""
        rest = self.samples_gpu_s[self.samples_gpu_s > attained_gpu_s] - attained_gpu_s
        if rest.size == 0:
            return 0.0
        within = float((rest <= self.quantum_gpu_s).mean())
        return within / float(np.minimum(rest, self.quantum_gpu_s).mean())

    def published(self, attained_gpu_s: float) -> float:
        """The number that the published code sorts by, times 1e6, with its roundings.

        A table lookup at the first sample above the attained service, whole-number division in
        the expectation, the sample itself (and not what is left of it) under the expectation,
        probabilities to 5 and ranks to 4 digits.
        """
        samples = self.samples_gpu_s
        count = samples.size
        if attained_gpu_s > samples[-1] - 1:
            return 0.0
        first = int(np.searchsorted(samples, attained_gpu_s, side="right"))
        if first >= count:
            return 0.0
        start = samples[first] - 1
        until = start + self.quantum_gpu_s
        last = count - 1
        if until <= samples[-1] - 1:
            last = int(np.searchsorted(samples, until, side="right"))
        begin = int(np.searchsorted(samples, start, side="right"))
        alive = count - begin
        chance = round((last - begin) / alive, 5)
        mean = (samples[begin:last].sum() + self.quantum_gpu_s * (count - last)) // alive
        return round(chance * 1e6 / float(mean), 4)


def queue_of(attained_gpu_s: float, limits_gpu_s: tuple[float, ...] = QUEUE_LIMITS_GPU_S) -> int:
    """Queue that the attained service alone puts a job into: 0 is served first."""
    return sum(attained_gpu_s >= limit for limit in limits_gpu_s)


def require_limits(limits_gpu_s: tuple[float, ...]) -> None:
    """Refuse queue limits that are not positive and ascending.

    Raises
    ------
    InputError
        Naming the limits.
    """
    if any(limit <= 0 for limit in limits_gpu_s) or list(limits_gpu_s) != sorted(set(limits_gpu_s)):
        raise InputError(
            f"must be positive and ascending, got {limits_gpu_s}", field="queue_limits_gpu_s"
        )
