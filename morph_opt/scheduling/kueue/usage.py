"""Usage of local queues that fades, by which Kueue's admission fair sharing orders a queue."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from morph_opt.scheduling.kueue.site import Site
from morph_opt.scheduling.kueue.workloads import PER_UNIT, Held


class LocalUsage:
    """Faded usage of local queues.

    Parameters
    ----------
    site
        The queues; its settings have the half-life, the interval and the weights of resources.
    used
        Weighted usage so far, by namespace and name of the local queue.
    """

    def __init__(self, site: Site, used: Mapping[str, float] | None = None) -> None:
        self._site = site
        self._used = dict(used or {})
        self._taken_s: float | None = None

    def _rate(self, elapsed_s: float) -> float:
        half_life_s = self._site.settings.half_life_s
        return 1.0 - 0.5 ** (elapsed_s / half_life_s) if half_life_s else 0.0

    def now(self) -> dict[str, float]:
        """Return the usage of each local queue over its weight; infinite at a weight of 0."""
        if self._site.settings.half_life_s is None:
            return {}
        found = {}
        for name, used in self._used.items():
            local = self._site.queues.local.get(name)
            weight = 1.0 if local is None else local.weight
            found[name] = used / weight if weight > 0 else math.inf
        for name, local in self._site.queues.local.items():
            found.setdefault(name, 0.0 if local.weight > 0 else math.inf)
        return found

    def admit(self, held: Held) -> None:
        """Count an admission at once, as much as a first interval of its usage would."""
        if self._site.settings.half_life_s is not None:
            name = held.workload.local
            rate = self._rate(self._site.settings.sampling_s)
            self._used[name] = self._used.get(name, 0.0) + rate * self._weighted(held)

    def sample(self, held: Iterable[Held], now_s: float) -> None:
        """Fade what was used, and count what is held, where an interval is over."""
        if self._site.settings.half_life_s is None:
            return
        if self._taken_s is None:
            self._taken_s = now_s
        elapsed_s = now_s - self._taken_s
        if elapsed_s < self._site.settings.sampling_s:
            return
        rate, self._taken_s = self._rate(elapsed_s), now_s
        self._used = {name: (1.0 - rate) * used for name, used in self._used.items()}
        for one in held:
            name = one.workload.local
            self._used[name] = self._used.get(name, 0.0) + rate * self._weighted(one)

    def _weighted(self, held: Held) -> float:
        weights = self._site.settings.resource_weights
        return sum(n * weights.get(r, 1.0) / PER_UNIT for (_, r), n in held.usage.items())
