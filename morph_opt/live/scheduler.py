"""What a turn asks of a scheduler: one class with side effects each, and what may go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from morph_opt.live.intents import Intent
    from morph_opt.live.picture import Picture

Command = tuple[str, ...]
"""The words of a command, as an operator would type it."""


class AwayError(Exception):
    """The scheduler gives no answer."""


class RefusedError(Exception):
    """The scheduler refuses a command."""


class Answered(Protocol):
    """What a scheduler said, before it is read."""

    @property
    def time_s(self) -> float:
        """Its clock as it answered."""

    @property
    def seen(self) -> object:
        """What differs whenever anything of it does."""


class Scheduler(Protocol):
    """A cluster under a scheduler that stays the arbiter."""

    server: str
    """The name in messages of what answers."""

    def clock(self) -> float:
        """The clock of this machine."""

    def sleep(self, seconds: float, /) -> None:
        """Let time pass."""

    def ask(self) -> Any:
        """What it says now (`Answered`); raises `AwayError` if it does not answer."""

    def observe(self, submitted_s: Mapping[str, float], asked: Any = None) -> Picture:
        """What is now: of ``asked``, or asked anew.

        Raises
        ------
        AwayError
            If it does not answer.
        InputError
            If its answers make no sense.
        """

    def commands(self, intent: Intent, picture: Picture) -> tuple[Command, ...]:
        """What carries out an intent."""

    def against(self, intent: Intent, picture: Picture) -> str:
        """What stands against it that no picture shows, just before it is done; "" for nothing."""

    def do(self, command: Command) -> None:
        """Carry out a command that changes something.

        Raises
        ------
        AwayError, RefusedError
            If it does not answer, or refuses.
        """

    def take_lease(self, owner: str) -> None:
        """Become the one controller of the cluster, for `Settings.lease_s`.

        Raises
        ------
        InputError
            If another has it, or there is no right to.
        AwayError
            If it does not answer.
        """

    def renew_lease(self, owner: str, picture: Picture) -> bool:
        """Keep it; False where it is another's, or gone: nothing may be done then.

        Raises
        ------
        AwayError, RefusedError
            If it does not take it.
        """

    def give_lease(self) -> None:
        """Let another have it at once."""
