"""Execution of planned intents within the powers, with a record of every command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from morph_opt.live.intents import Stop
from morph_opt.live.memory import Memory
from morph_opt.live.picture import Picture
from morph_opt.live.plan import Planned
from morph_opt.live.record import Folder
from morph_opt.live.scheduler import AwayError, Command, RefusedError, Scheduler
from morph_opt.live.settings import Settings


@dataclass(frozen=True, slots=True)
class Executor:
    """Carries out the plans of a controller.

    Parameters
    ----------
    scheduler, settings, memory, folder
        Of the controller.
    acts
        Whether anything is done; else it is only said what would be.
    """

    scheduler: Scheduler
    settings: Settings
    memory: Memory
    folder: Folder
    acts: bool

    def carry_out(
        self, planned: list[Planned], picture: Picture, forbidden: str
    ) -> list[dict[str, Any]]:
        """Carry out the planned intents, or only log them, and return a record of each.

        Parameters
        ----------
        forbidden
            Why nothing at all may be done now; "" if it may.
        """
        if self.acts and not forbidden:
            self._announce(planned, picture)
        records = []
        failed: set[str] = set()
        for one in planned:
            intent = one.intent
            commands = self.scheduler.commands(intent, picture)
            outcome, why = self._held_back(one, picture, forbidden)
            if not outcome and intent.job in failed:
                outcome = "postponed"
            if not outcome:
                outcome, why = self._do(one, commands)
                if outcome == "refused":
                    failed.add(intent.job)
                elif why:
                    forbidden = why
            self.folder.counts[outcome] += 1
            record: dict[str, Any] = {"kind": intent.kind, "job": intent.job, "outcome": outcome}
            if outcome == "would":  # of the others the line before has them
                record["commands"] = [shlex.join(command) for command in commands]
            records.append(record | ({"why": why} if why else {}))
        return records

    def _announce(self, planned: list[Planned], picture: Picture) -> None:
        """Log the commands before they run, so that a killed controller leaves a trace."""
        ready = [one.intent for one in planned if not one.outcome]
        answer = [shlex.join(c) for one in ready for c in self.scheduler.commands(one, picture)]
        if answer:
            now_s = self.scheduler.clock()
            self.folder.log({"doing": self.memory.turns, "clock_s": now_s, "commands": answer})

    def _held_back(self, one: Planned, picture: Picture, forbidden: str) -> tuple[str, str]:
        """Return outcome and reason of an intent that is not carried out; empty for others."""
        if one.outcome:
            return one.outcome, one.why
        if forbidden:
            return "postponed", forbidden
        if one.intent.power not in self.settings.powers:
            return "limited", f"no power {one.intent.power!r}"
        if not self.acts:
            return "would", ""
        against = self.scheduler.against(one.intent, picture)
        return ("postponed", against) if against else ("", "")

    def _do(self, one: Planned, commands: tuple[Command, ...]) -> tuple[str, str]:
        try:
            for command in commands:
                self.scheduler.do(command)
        except RefusedError as error:
            return "refused", str(error)
        except AwayError as error:
            self.memory.away_s = self.scheduler.clock()
            return "postponed", f"{self.scheduler.server} is away: {error}"
        if isinstance(one.intent, Stop) and one.intent.power == "stops":
            self.memory.stops_s.append(self.scheduler.clock())
        elif isinstance(one.intent, Stop) and one.intent.job in self.memory.jobs:
            self.memory.jobs[one.intent.job].launches_failed += 1
        self.folder.counts[f"{one.intent.kind}s"] += 1
        return "did", ""
