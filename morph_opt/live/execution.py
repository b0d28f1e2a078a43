"""Execution of planned intents within the powers, with a record of every command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from morph_opt.core.domain import InputError
from morph_opt.live.memory import Memory, read_memory
from morph_opt.live.picture import Picture
from morph_opt.live.plan import Planned, releases
from morph_opt.live.record import Folder
from morph_opt.live.scheduler import AwayError, Command, Intent, RefusedError, Scheduler, Stop
from morph_opt.live.settings import Settings


@dataclass(frozen=True, slots=True)
class Executor:
    """Executor of the plans of a controller.

    Parameters
    ----------
    scheduler, settings, memory, folder
        Parts of the controller.
    acts
        Whether intents are carried out; otherwise they are only logged.
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


_LOOKS = 10
"""Number of passes: a stopped Kubernetes job first gets new pods, which are released next."""
_PAUSE_S = 1.0


def release_all(
    scheduler: Scheduler, folder: Path, older_than_s: int | None
) -> tuple[int, list[str]]:
    """Release all marked jobs; return their number, and a line for each refusal.

    Parameters
    ----------
    older_than_s
        Do nothing unless the last turn of the folder is so long ago; None: whenever.

    Raises
    ------
    InputError
        If a controller works in the folder, or the scheduler does not answer.
    """
    memory = read_memory(folder)
    if older_than_s is not None and scheduler.clock() - memory.last_turn[0] < older_than_s:
        return 0, []
    record = Folder(folder, 0)
    done: set[str] = set()
    refused: dict[str, str] = {}
    try:
        for look in range(_LOOKS):
            if look:
                scheduler.sleep(_PAUSE_S)
            picture, refused = scheduler.observe(memory.submitted_s()), {}
            todo = releases(picture)
            if not todo:
                break
            for one in todo:
                why = _release(scheduler, one.intent, picture, record)
                if why:
                    refused[one.intent.job] = why
                else:
                    done.add(one.intent.job)
    except (AwayError, RefusedError) as error:
        raise InputError(f"does not answer: {error}", field=scheduler.server) from None
    finally:
        record.close()
    return len(done), [f"{job}: {why}" for job, why in refused.items()]


def _release(scheduler: Scheduler, intent: Intent, picture: Picture, record: Folder) -> str:
    """Release one job; return why it was refused, or ""."""
    commands, why = scheduler.commands(intent, picture), ""
    try:
        for command in commands:
            scheduler.do(command)
    except RefusedError as error:
        why = str(error)
    about: dict[str, Any] = {"kind": intent.kind, "job": intent.job}
    about["outcome"] = "refused" if why else "did"
    about["commands"] = [" ".join(command) for command in commands]
    record.log({"released": picture.time_s, "commands": [about]})
    return why if commands else "has no pods yet: run it again"
