"""Give every job that has our mark back to the plain scheduler; no controller is needed for it."""

from __future__ import annotations

from pathlib import Path

from morph_opt.domain import InputError
from morph_opt.live.memory import read_memory
from morph_opt.live.plan import releases
from morph_opt.live.record import Folder
from morph_opt.live.scheduler import AwayError, RefusedError, Scheduler


def release_all(
    scheduler: Scheduler, folder: Path, older_than_s: int | None
) -> tuple[int, list[str]]:
    """Release jobs; returns how many were, and a line for each that was refused.

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
    done, refused = 0, []
    try:
        picture = scheduler.observe(memory.submitted_s())
        for one in releases(picture):
            outcome = "did"
            commands = scheduler.commands(one.intent, picture)
            try:
                for command in commands:
                    scheduler.do(command)
                done += 1
            except RefusedError as error:
                outcome = "refused"
                refused.append(f"{one.intent.job}: {error}")
            words = [" ".join(command) for command in commands]
            about = {"kind": one.intent.kind, "job": one.intent.job, "outcome": outcome}
            record.log({"released": picture.time_s, "commands": [about | {"commands": words}]})
    except (AwayError, RefusedError) as error:
        raise InputError(f"does not answer: {error}", field=scheduler.who) from None
    finally:
        record.close()
    return done, refused
