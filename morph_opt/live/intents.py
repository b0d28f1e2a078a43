"""Changes of a turn as typed values, which each scheduler's client translates to commands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """New request of a job: GPUs, nodes, and whether GPUs are counted by node."""

    gpus: int
    nodes: int
    by_node: bool


@dataclass(frozen=True, slots=True)
class Start:
    """Start of a waiting job.

    Parameters
    ----------
    job
        Name; it waits, held by nobody.
    nodes
        Names; it is pinned to them.
    gpus
        Indices on each of them; the scheduler may take others.
    shape
        What it is to ask for; None for what it asks for already.
    park_s
        Instant until which it is parked first, where the scheduler might start it by itself
        meanwhile; 0 where something keeps it back.
    """

    job: str
    nodes: tuple[str, ...]
    gpus: tuple[tuple[int, ...], ...]
    shape: Shape | None = None
    park_s: int = 0

    kind = "start"
    power = "placement"


@dataclass(frozen=True, slots=True)
class Stop:
    """Return of a running job to the queue.

    Parameters
    ----------
    power
        That of stops, or of placement for a job that was started and never came to run.
    """

    job: str
    power: str = "stops"

    kind = "stop"


@dataclass(frozen=True, slots=True)
class Park:
    """Delay of a waiting job until ``until_s`` at most."""

    job: str
    until_s: int

    kind = "park"
    power = "placement"


@dataclass(frozen=True, slots=True)
class Prioritise:
    """New priority of a waiting job in the scheduler's own order."""

    job: str
    priority: int

    kind = "prioritise"
    power = "order"


@dataclass(frozen=True, slots=True)
class Release:
    """Removal of our mark and limits from a job.

    Parameters
    ----------
    waits, ranked
        Whether it waits, and whether its priority is ours.
    """

    job: str
    waits: bool
    ranked: bool

    kind = "release"
    power = ""


Intent = Start | Stop | Park | Prioritise | Release
