"""The few things that a library's status code can mean; each adapter maps all of its codes here."""

from __future__ import annotations

from enum import StrEnum

from morph_opt.solvers.outcome import Limits, Stop


class Meaning(StrEnum):
    """What a library claims; a claim is tested before it becomes an `Outcome`."""

    PROVED = "proved"
    """An incumbent within the gap that was asked for (of an LP: an optimal point)."""
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    INFEASIBLE_OR_UNBOUNDED = "infeasible_or_unbounded"
    TIME_LIMIT = "time_limit"
    NODE_LIMIT = "node_limit"
    WORK_LIMIT = "work_limit"
    MEMORY_LIMIT = "memory_limit"
    LIMIT = "limit"
    """Some limit; the code does not say which."""
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
    """Why the solve ended; an unnamed limit is the clock if that had run out, else the other."""
    if meaning is not Meaning.LIMIT:
        return _STOPS[meaning]
    if solve_s < 0.9 * limits.time_s:
        if limits.nodes is not None:
            return Stop.NODE_LIMIT
        if limits.work is not None:
            return Stop.WORK_LIMIT
    return Stop.TIME_LIMIT
