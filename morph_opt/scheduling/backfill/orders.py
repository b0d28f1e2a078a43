"""Orders in which EASY backfill serves the jobs that wait.

Sources, in the order below: Tsafrir, Etsion and Feitelson, "Backfilling Using System-Generated
Predictions Rather than User Runtime Estimates" (TPDS 2007); Chiang, Arpaci-Dusseau and Vernon, "The
Impact of More Accurate Requested Runtimes on Production Job Scheduling Performance" (JSSPP 2002);
Tang, Lan, Desai and Buettner, "Fault-Aware, Utility-Based Job Scheduling on Blue Gene/P Systems"
(CLUSTER 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from morph_opt.scheduling.backfill.book import rank
from morph_opt.scheduling.backfill.queue import Waiting


@dataclass(frozen=True, slots=True)
class Order:
    """Order of waiting jobs within one priority.

    Parameters
    ----------
    value
        Value of a request after a wait in seconds; the largest is served first.
    words
        Name of the value.
    whole
        Whether it also decides which jobs have the reservations. Otherwise these are the first to
        arrive, and only the jobs that may pass them are served by the value.
    """

    value: Callable[[Waiting, float], float]
    words: str
    whole: bool = True

    def key(self, wait_s: Callable[[int], float]) -> Callable[[Waiting], tuple[float, ...]]:
        """Return the rank of a request, the smallest first, from the waits of jobs by number."""

        def found(one: Waiting) -> tuple[float, ...]:
            *classes, job = rank(one)
            return (*classes, -self.value(one, wait_s(job)), job)

        return found


def shortness(one: Waiting, wait_s: float) -> float:
    """Return the value that is largest for the shortest time limit."""
    del wait_s
    return -one.limit_s


def expansion_factor(one: Waiting, wait_s: float) -> float:
    """Return wait and time limit over the time limit."""
    return (wait_s + one.limit_s) / one.limit_s


def wfp(one: Waiting, wait_s: float) -> float:
    """Return the cube of wait over time limit, times the requested GPUs."""
    return (wait_s / one.limit_s) ** 3 * one.nodes * one.demand[0]


ORDERS = {
    "sjbf": Order(shortness, "time limit, the shortest first", whole=False),
    "lxf": Order(expansion_factor, "expansion factor"),
    "wfp": Order(wfp, "(wait / time limit)^3 x GPUs"),
}
"""Orders of the policies ``easy:NAME``, by name."""
