"""What is to be changed, as typed values, and the commands that change it.

Every start, place and shape is one command: Slurm does all of it or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from morph_opt.live.picture import PARKED, RANKED, STARTED, STOPPED

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """Let a job begin now; see the powers for what may be chosen.

    Parameters
    ----------
    job
        Number; it waits, held by nobody.
    nodes
        Names; it is pinned to them.
    gpus
        GPUs on each of them; where they differ Slurm says how many on which.
    reshape
        What changes its shape, as words of ``scontrol update``.
    """

    job: str
    nodes: tuple[str, ...]
    gpus: tuple[int, ...]
    reshape: tuple[str, ...] = ()

    kind = "start"
    power = "placement"

    def commands(self, time_s: float) -> tuple[Command, ...]:
        """As an operator would type it."""
        where = (f"ReqNodeList={','.join(self.nodes)}",)
        mark = f"AdminComment={STARTED}@{time_s:.0f}"
        return (_update(self.job, *self.reshape, *where, "StartTime=now", mark),)


@dataclass(frozen=True, slots=True)
class Stop:
    """Requeue a job that runs; ``Incomplete`` keeps one that has just ended from running again."""

    job: str

    kind = "stop"
    power = "stops"

    def commands(self, time_s: float) -> tuple[Command, ...]:
        """As an operator would type it."""
        mark = _update(self.job, f"AdminComment={STOPPED}@{time_s:.0f}")
        return mark, ("scontrol", "requeue", "Incomplete", self.job)


@dataclass(frozen=True, slots=True)
class Park:
    """Let a job that waits go on waiting, until ``until_s`` at most."""

    job: str
    until_s: int

    kind = "park"
    power = "placement"

    def commands(self, time_s: float) -> tuple[Command, ...]:  # noqa: ARG002 - as of the others
        """As an operator would type it, with the clock of UTC."""
        begin = f"StartTime={datetime.fromtimestamp(self.until_s, UTC):%Y-%m-%dT%H:%M:%S}"
        mark = f"AdminComment={PARKED}@{self.until_s}"
        return (_update(self.job, begin, "ReqNodeList=", mark),)


@dataclass(frozen=True, slots=True)
class Prioritise:
    """Give a job that waits a place in Slurm's own order."""

    job: str
    priority: int

    kind = "prioritise"
    power = "order"

    def commands(self, time_s: float) -> tuple[Command, ...]:
        """As an operator would type it."""
        mark = f"AdminComment={RANKED}@{time_s:.0f}"
        return (_update(self.job, f"Priority={self.priority}", mark),)


@dataclass(frozen=True, slots=True)
class Release:
    """Give a job back to plain Slurm.

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

    def commands(self, time_s: float) -> tuple[Command, ...]:  # noqa: ARG002 - as of the others
        """As an operator would type it."""
        back = ("StartTime=now", "ReqNodeList=") if self.waits else ()
        found: tuple[Command, ...] = (_update(self.job, *back, "AdminComment="),)
        if self.waits and self.ranked:
            found += (("scontrol", "release", self.job),)
        return found


Intent = Start | Stop | Park | Prioritise | Release


def _update(job: str, *words: str) -> Command:
    return ("scontrol", "update", f"JobId={job}", *words)
