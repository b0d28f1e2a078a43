"""Interface of schedulers' clients, which have all side effects, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from morph_opt.core.domain import InputError

if TYPE_CHECKING:
    from morph_opt.live.picture import Picture


Command = tuple[str, ...]
"""Words of a command, as an operator would type them."""


class AwayError(Exception):
    """No answer from the scheduler."""


class RefusedError(Exception):
    """Refusal of a command by the scheduler."""


def require_free(holder: tuple[str, float], owner: str, now_s: float) -> None:
    """Refuse a lease that another controller holds; ``holder`` is its name and expiry."""
    name, until_s = holder
    if name not in ("", owner) and until_s > now_s:
        rule = f"another controller ({name}) has it for {until_s - now_s:.0f} s more"
        raise InputError(rule, field="lease")


class Answered(Protocol):
    """Unparsed answer of a scheduler."""

    @property
    def time_s(self) -> float:
        """Time of the answer on the scheduler's clock."""

    @property
    def seen(self) -> object:
        """Fingerprint of the answer."""


class Scheduler(Protocol):
    """Client of a running scheduler."""

    server: str
    """Name of the answering server in messages."""

    def clock(self) -> float:
        """Return the time of this machine."""

    def sleep(self, seconds: float, /) -> None:
        """Let time pass."""

    def ask(self) -> Any:
        """Ask the scheduler (`Answered`); raise `AwayError` if it does not answer."""

    def observe(self, submitted_s: Mapping[str, float], asked: Any = None) -> Picture:
        """Return the picture of ``asked``, or of a new answer.

        Raises
        ------
        AwayError
            If it does not answer.
        InputError
            If its answers make no sense.
        """

    def commands(self, intent: Intent, picture: Picture) -> tuple[Command, ...]:
        """Return the commands of an intent."""

    def against(self, intent: Intent, picture: Picture) -> str:
        """Return why an intent must not be carried out after all, by a last check; "" if it may."""

    def do(self, command: Command) -> None:
        """Carry out a command that changes something.

        Raises
        ------
        AwayError, RefusedError
            If it does not answer, or refuses.
        """

    def take_lease(self, owner: str) -> None:
        """Take the lease of the cluster's one controller, for `Settings.lease_s`.

        Raises
        ------
        InputError
            If another has it, or there is no right to.
        AwayError
            If it does not answer.
        """

    def renew_lease(self, owner: str, picture: Picture) -> bool:
        """Renew the lease; return False if it is lost, in which case nothing may be done.

        Raises
        ------
        AwayError, RefusedError
            If it does not take it.
        """

    def give_lease(self) -> None:
        """Release the lease."""


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
        New request; None to keep the present one.
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
        Power ``stops``, or ``placement`` for a job that was started and never ran.
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
