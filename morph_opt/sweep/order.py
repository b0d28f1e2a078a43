"""Messages between driver and worker: plain values and bytes, so that no disk is shared."""

from __future__ import annotations

from dataclasses import dataclass

from morph_opt.core.domain import InputError, Range
from morph_opt.simulation.runs.slo import Slo

RANGES = {
    "seconds": Range(0.1, 1e7),
    "memory_mib": Range(64, 10**8, whole=True),
    "attempts": Range(1, 100, whole=True),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a cell.

    Parameters
    ----------
    seconds
        Wall time.
    memory_mib
        Address space (``RLIMIT_AS``); None for no limit.
    attempts
        Number of times that a cell is tried if its process dies; other failures are final.

    Raises
    ------
    InputError
        If a value is outside `RANGES`.
    """

    seconds: float = 3600.0
    memory_mib: int | None = None
    attempts: int = 2

    def __post_init__(self) -> None:
        for name, known in RANGES.items():
            value = getattr(self, name)
            if value is not None:
                try:
                    known.require(name, value)
                except InputError as error:
                    raise InputError(error.rule, field=name) from error


SLO, MISSED = "slo.json", "missed.json"
"""Files of a cell: the SLO of its replay, and the proof that the replay misses it."""


@dataclass(frozen=True, slots=True)
class Order:
    """Cell as it is sent to a worker.

    Parameters
    ----------
    key
        Key of the cell.
    config
        Text of ``config.toml``.
    files
        Path as in ``config``, and content.
    keep
        Files of the run folder to send back, next to the summary.
    limits
        See `Limits`.
    slo
        See `morph_opt.sweep.Cell`.
    """

    key: str
    config: str
    files: tuple[tuple[str, bytes], ...]
    keep: tuple[str, ...]
    limits: Limits
    slo: Slo | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a finished cell.

    Parameters
    ----------
    files
        Contents by name; `MISSED` alone if the replay was ended early.
    wall_s, host
        Seconds of wall time, and host name.
    attempts
        Number of times that it was begun.
    """

    files: dict[str, bytes]
    wall_s: float
    host: str
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of a cell.

    Parameters
    ----------
    kind
        ``input`` (bad input), ``error`` (any other error of the command), ``signal`` (its
        process died), ``time`` or ``memory`` (its limits), ``lost`` (its worker died).
    status
        Exit status, negative for a signal; None if there is none.
    message
        Last line of stderr.
    wall_s, host, attempts
        Seconds of wall time, host name, and number of tries.
    """

    kind: str
    status: int | None
    message: str
    wall_s: float = 0.0
    host: str = ""
    attempts: int = 1

    def may_change(self, limits: Limits, before: Limits) -> bool:
        """Return whether another run may end otherwise.

        Parameters
        ----------
        limits, before
            Limits of another run, and of the one that failed.
        """
        most = float("inf")
        if self.kind == "time":
            return limits.seconds > before.seconds
        if self.kind == "memory":
            return (limits.memory_mib or most) > (before.memory_mib or most)
        return self.kind == "lost"
