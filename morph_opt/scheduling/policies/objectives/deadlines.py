"""Input of objective ``cost`` from a snapshot: prices, deadlines and dropped SLOs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import Cluster, InputError, JobState, RoundState
from morph_opt.core.domain.errors import typed


def prices_of(cluster: Cluster) -> Floats:
    """Return dollars per hour of a GPU of each type, shape (T,).

    Raises
    ------
    InputError
        If a type has none; names it.
    """
    for kind in cluster.gpu_types:
        if kind.price_per_hour is None:
            raise InputError(
                f"cost needs a price of every GPU type, {kind.name} of cluster {cluster.name!r} "
                "has none: give price_per_hour of the type in the cluster spec or snapshot, or "
                f"{typed('--prices')} {kind.name}=DOLLARS_PER_HOUR to a replay",
                field="prices",
            )
    return np.asarray([kind.price_per_hour for kind in cluster.gpu_types], dtype=np.float64)


def slo_left_s(known: JobState, now_s: float) -> float:
    """Return seconds until the deadline available for steps; inf without one, at most 0 if passed.

    The start-up still ahead is subtracted.
    """
    if known.job.deadline_s is None:
        return np.inf
    start_s = known.restart_s if known.running is None else known.restart_left_s
    return known.job.deadline_s - now_s - start_s


class SloNames:
    """Record of the jobs whose SLO is dropped in this round, and of changes since the last.

    An SLO is dropped when it cannot be promised together with the others' (the fewest are), or when
    too little time is left. It is tried again in every round, so it may be restored.
    """

    def __init__(self) -> None:
        self.dropped: frozenset[str] = frozenset()
        self._before: frozenset[str] = frozenset()
        self._time_s: float | None = None
        self._active: frozenset[str] = frozenset()

    def settle(self, state: RoundState, dropped: Sequence[int]) -> None:
        """Set the dropped SLOs, by position in ``state.jobs``; a repeated round counts once."""
        if state.time_s != self._time_s:
            self._before, self._time_s = self.dropped, state.time_s
        late = [row for row, known in enumerate(state.jobs) if slo_left_s(known, state.time_s) <= 0]
        self.dropped = frozenset(state.jobs[row].job.name for row in (*dropped, *late))
        self._active = frozenset(known.job.name for known in state.jobs)

    @property
    def newly_dropped(self) -> tuple[str, ...]:
        """Jobs whose SLO was kept in the round before, sorted."""
        return tuple(sorted(self.dropped - self._before))

    @property
    def restored(self) -> tuple[str, ...]:
        """Jobs whose SLO was dropped in the round before and binds again, sorted."""
        return tuple(sorted((self._before - self.dropped) & self._active))
