"""Release of all jobs with our mark, without a controller."""

from __future__ import annotations

from pathlib import Path

from morph_opt.core.domain import InputError
from morph_opt.live.intents import Intent
from morph_opt.live.memory import read_memory
from morph_opt.live.picture import Picture
from morph_opt.live.plan import releases
from morph_opt.live.record import Folder
from morph_opt.live.scheduler import AwayError, RefusedError, Scheduler

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
    about = {
        "kind": intent.kind,
        "job": intent.job,
        "outcome": "refused" if why else "did",
        "commands": [" ".join(command) for command in commands],
    }
    record.log({"released": picture.time_s, "commands": [about]})
    return why if commands else "has no pods yet: run it again"
