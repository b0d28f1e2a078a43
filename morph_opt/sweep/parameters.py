"""Parameters of a sweep's processes: how long they wait, and how often they try again.

One frozen class and one instance with the values in use; none of them changes a result.
"""

from __future__ import annotations

from dataclasses import dataclass

from formulations.parameters import Params, number


@dataclass(frozen=True, slots=True)
class ProcessParams(Params):
    """Waiting and repeating of executors, workers and their children (docs/sweep.md)."""

    connect_s: float = number(10.0, 0.01, 1e6)
    """Longest time in seconds until a Dask scheduler answers."""
    workers_s: float = number(60.0, 0.01, 1e6)
    """Longest time in seconds until a first worker joins."""
    retries: int = number(2, 0, 100)
    """Repetitions of a call whose worker was lost."""
    poll_s: float = number(0.25, 0.01, 1e6)
    """Seconds between two checks whether a sweep was given up."""
    cells: int = number(100, 1)
    """Largest number of cells that a child process runs."""
    idle_s: float = number(60.0, 0.01, 1e6)
    """Longest time in seconds that a child process waits for its next cell."""


PROCESSES = ProcessParams()
