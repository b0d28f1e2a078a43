"""Parameters of a sweep's processes: how long they wait, and how often they try again.

One frozen class and one instance with the values in use; none of them changes a result.
"""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import Range
from morph_opt.core.domain.options import documented, option, require_all

_SECONDS = Range(0.01, 1e6)


@documented
@dataclass(frozen=True, slots=True)
class ProcessParams:
    """Waiting and repeating of executors, workers and their children (docs/sweep.md)."""

    connect_s: float = option(
        10.0, "longest time until a Dask scheduler answers, in seconds", range=_SECONDS
    )
    workers_s: float = option(
        60.0, "longest time until a first worker joins, in seconds", range=_SECONDS
    )
    retries: int = option(
        2, "repetitions of a call whose worker was lost", range=Range(0, 100, whole=True)
    )
    poll_s: float = option(
        0.25, "time between two looks at whether a sweep was given up, in seconds", range=_SECONDS
    )
    cells: int = option(
        100, "largest number of cells that a child process runs", range=Range(1, 10**6, whole=True)
    )
    idle_s: float = option(
        60.0,
        "longest time that a child process waits for its next cell, in seconds",
        range=_SECONDS,
    )

    def __post_init__(self) -> None:
        require_all(self)


PROCESSES = ProcessParams()
"""Values in use."""
