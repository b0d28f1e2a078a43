"""Gittins index and queue rules of Tiresias (NSDI'19), as plain functions of numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats
from morph_opt.core.domain import InputError, JobState, RoundState
from morph_opt.scheduling.policies.published import TIRESIAS


@dataclass(frozen=True, slots=True)
class GittinsIndex:
    """Gittins index of a job from samples of total GPU time.

    For attained service a and quantum D, over the samples S > a (Tiresias, NSDI'19)::

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
    quantum_gpu_s: float = TIRESIAS.quantum_gpu_s

    def __post_init__(self) -> None:
        samples = self.samples_gpu_s
        if samples.size == 0:
            raise InputError("needs at least one sample", field="samples_gpu_s")
        if not np.isfinite(samples).all() or samples.min() <= 0 or (np.diff(samples) < 0).any():
            raise InputError("must be positive and ascending", field="samples_gpu_s")
        if not self.quantum_gpu_s > 0:
            raise InputError(f"must be above 0, got {self.quantum_gpu_s:g}", field="quantum_gpu_s")

    @classmethod
    def of(
        cls, samples_gpu_s: npt.ArrayLike, quantum_gpu_s: float = TIRESIAS.quantum_gpu_s
    ) -> GittinsIndex:
        """Return the index of samples in any order."""
        return cls(np.sort(np.asarray(samples_gpu_s, dtype=np.float64)), quantum_gpu_s)

    def exact(self, attained_gpu_s: float, startup_gpu_s: float = 0.0) -> float:
        """Return the index in 1 per GPU-second; 0 beyond the largest sample.

        Parameters
        ----------
        attained_gpu_s
            Service so far, a.
        startup_gpu_s
            GPU-seconds that are spent before the service continues; added to the expectation.
        """
        rest = self.samples_gpu_s[self.samples_gpu_s > attained_gpu_s] - attained_gpu_s
        if rest.size == 0:
            return 0.0
        within = float((rest <= self.quantum_gpu_s).mean())
        return within / (startup_gpu_s + float(np.minimum(rest, self.quantum_gpu_s).mean()))

    def of_job(self, known: JobState, now_s: float, attained_gpu_s: float) -> float:
        """Return the index of a job in a round in which starts cost time.

        A start-up still ahead counts as GPU-seconds without service. The index weighs a whole
        quantum against its cost: a started job keeps its index at the start until the quantum is
        used up, unless its index has risen. Without start-up it is `exact`.

        Parameters
        ----------
        attained_gpu_s
            Service that counts; see `ServiceBook.attained_gpu_s`.
        """
        if known.running is None:
            return self.exact(attained_gpu_s, known.job.requested_gpus * known.restart_s)
        gpus = known.running.placement.gpus
        index = self.exact(attained_gpu_s, gpus * known.restart_left_s)
        if known.restart_s <= 0.0 or known.last_start_s is None:
            return index
        used_gpu_s = gpus * (now_s - known.last_start_s)
        if used_gpu_s >= self.quantum_gpu_s:
            return index
        return max(index, self.exact(max(0.0, attained_gpu_s - used_gpu_s)))


def queue_of(
    attained_gpu_s: float, limits_gpu_s: tuple[float, ...] = TIRESIAS.queue_limits_gpu_s
) -> int:
    """Return the queue for this attained service; 0 is served first."""
    return sum(attained_gpu_s >= limit for limit in limits_gpu_s)


@dataclass(slots=True)
class _Service:
    """Service and time of a job at its last promotion."""

    attained_gpu_s: float = 0.0
    executed_s: float = 0.0
    promoted_s: float | None = None


class ServiceBook:
    """Queue and rank of every job, with the starvation knob (Tiresias, NSDI'19).

    A job below the first queue whose last wait is at least K times its executed time goes to the
    tail of the first queue, and its service counts anew from 0. Executed time and service count
    from the last promotion, the wait from the last loss of GPUs.

    Parameters
    ----------
    limits_gpu_s
        GPU-seconds at which a job leaves a queue; the last queue has no limit.
    starvation_knob
        K, at least 0; 0 for never (the book then remembers nothing).

    Raises
    ------
    InputError
        If limits or starvation knob are out of range.
    """

    def __init__(
        self,
        limits_gpu_s: tuple[float, ...] = TIRESIAS.queue_limits_gpu_s,
        starvation_knob: float = 0.0,
    ) -> None:
        require_limits(limits_gpu_s)
        if not 0.0 <= starvation_knob < np.inf:
            raise InputError(
                f"must be a number at least 0, got {starvation_knob:g}", field="starvation_knob"
            )
        self._limits = limits_gpu_s
        self._starvation_knob = starvation_knob
        self._service: dict[str, _Service] = {}

    @property
    def remembers(self) -> bool:
        """Whether it must see every round."""
        return self._starvation_knob > 0

    def observe(self, state: RoundState) -> None:
        """See a round, in order; a repeated round counts once."""
        if not self._starvation_knob:
            return
        names = {known.job.name for known in state.jobs}
        self._service = {n: s for n, s in self._service.items() if n in names}
        for known in state.jobs:
            since = self._since(known)
            executed_s = known.executed_s - since.executed_s
            if known.running is not None or known.last_stop_s is None or executed_s <= 0:
                continue
            waited_s = state.time_s - known.last_stop_s
            if self.queue(known) > 0 and waited_s >= self._starvation_knob * executed_s:
                self._service[known.job.name] = _Service(
                    known.attained_gpu_s, known.executed_s, state.time_s
                )

    def _since(self, known: JobState) -> _Service:
        return self._service.get(known.job.name, _Service())

    def attained_gpu_s(self, known: JobState) -> float:
        """Return the service since the last promotion."""
        return known.attained_gpu_s - self._since(known).attained_gpu_s

    def queue(self, known: JobState) -> int:
        """Return the queue of a job; 0 is served first."""
        return queue_of(self.attained_gpu_s(known), self._limits)

    def arrival_s(self, known: JobState) -> float:
        """Return when a job joined its queue: its submission, or its promotion to the tail."""
        promoted_s = self._since(known).promoted_s
        if promoted_s is None or self.queue(known) > 0:
            return known.job.submission_s
        return promoted_s


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
