"""Meanings of a library's status codes; each adapter maps all of its codes to them."""

from __future__ import annotations

from enum import StrEnum

from morph_opt.scheduling.solvers.outcome import Limits, Stop


class Meaning(StrEnum):
    """Claim of a library, which is tested before it becomes an `Outcome`."""

    PROVED = "proved"
    """Incumbent within the requested gap (optimal point for an LP)."""
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INFEASIBLE_OR_UNBOUNDED = "infeasible_or_unbounded"
    TIME_LIMIT = "time_limit"
    NODE_LIMIT = "node_limit"
    WORK_LIMIT = "work_limit"
    MEMORY_LIMIT = "memory_limit"
    LIMIT = "limit"
    """End by a limit that the code does not name."""
    FAILED = "failed"


_STOPS = {
    Meaning.PROVED: Stop.PROVED,
    Meaning.INFEASIBLE: Stop.PROVED,
    Meaning.UNBOUNDED: Stop.PROVED,
    Meaning.INFEASIBLE_OR_UNBOUNDED: Stop.PROVED,
    Meaning.TIME_LIMIT: Stop.TIME_LIMIT,
    Meaning.NODE_LIMIT: Stop.NODE_LIMIT,
    Meaning.WORK_LIMIT: Stop.WORK_LIMIT,
    Meaning.MEMORY_LIMIT: Stop.MEMORY_LIMIT,
    Meaning.FAILED: Stop.FAILED,
}


def stop_of(meaning: Meaning, limits: Limits, solve_s: float) -> Stop:
    """Return why the solve ended; an unnamed limit is the clock if time had run out."""
    if meaning is not Meaning.LIMIT:
        return _STOPS[meaning]
    if solve_s < 0.9 * limits.time_s:
        if limits.nodes is not None:
            return Stop.NODE_LIMIT
        if limits.work is not None:
            return Stop.WORK_LIMIT
    return Stop.TIME_LIMIT
