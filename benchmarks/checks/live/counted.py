"""What runs beside a real Slurm are counted by."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path

FORGETS_S = 15.0
"""A slurmctld that is killed may not have written down what happened so long before."""


SOON = 20
"""Lines of its log after which slurmctld has taken a job back that it found on a node already."""


@dataclass(slots=True)
class Counted:
    """What a run came to; everything from ``lost`` on must be 0.

    ``by_slurm`` are jobs that ran again after their end without a stop of ours since they began:
    slurmctld was killed before it had written down that they had ended, and requeued them as of a
    failed node. ``forgotten`` ended, and slurmctld, killed too soon to know that they had begun or
    ended, holds them; or it put them where a job of their number ran already, and holds them since.
    ``ran_again`` were stopped behind their end,
    ``unreached`` before it by a stop that did not end them. ``unreported`` were stopped although
    they report nothing. ``unread`` are answers of Slurm that
    the readers refuse, ``misread`` what they make of sacct that was not so.
    """

    jobs: int = 0
    restarts: int = 0
    commands: int = 0
    stops: int = 0
    kills: int = 0
    by_slurm: int = 0
    forgotten: int = 0
    lost: int = 0
    unreached: int = 0
    ran_again: int = 0
    unreported: int = 0
    touched: int = 0
    held_twice: int = 0
    not_held: int = 0
    left_marked: int = 0
    unlogged: int = 0
    second_joined: int = 0
    unread: int = 0
    misread: int = 0
    notes: list[str] = field(default_factory=list)

    @classmethod
    def fault_names(cls) -> tuple[str, ...]:
        """Figures that must be 0."""
        names = [one.name for one in fields(cls) if one.type == "int"]
        return tuple(names[names.index("lost") :])

    @property
    def faults(self) -> int:
        """Their sum."""
        return sum(getattr(self, name) for name in self.fault_names())


def record(path: Path, row: dict[str, object]) -> None:
    """Add a row to a CSV file, with a header where it is new."""
    fresh = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(row)


def runs_of(lines: Sequence[str]) -> list[tuple[float, float]]:
    """When a job ran, by its own word."""
    words = [line.split() for line in lines]
    starts = [float(one[1]) for one in words if one[0] == "start"]
    ends = [float(one[1]) for one in words if one[0] != "start"]
    return list(zip(starts, ends, strict=False))


def forgot(lines: Sequence[str], killed_s: Sequence[float]) -> bool:
    """Whether slurmctld was killed too soon to know of the start or the end of a job's last run.

    Parameters
    ----------
    lines
        What the job wrote down.
    killed_s
        When slurmctld was killed.
    """
    words = [line.split() for line in lines]
    last = max((i for i, one in enumerate(words) if one[0] == "start"), default=0)
    at_s = [float(one[1]) for one in words[last:]]
    return any(0.0 < kill_s - one < FORGETS_S for kill_s in killed_s for one in at_s)


def held_by_slurm(job: str, log: Sequence[str]) -> bool:
    """Whether slurmctld put a job on a node that runs one of its number, and holds it since.

    A slurmctld that was killed too soon forgets that it started a job, or even that it gave a
    number away, and gives it to the next one.

    Parameters
    ----------
    log
        Of slurmctld, line by line.
    """
    twice = [at for at, line in enumerate(log) if "Duplicate jobid on nodes" in line]
    back = [at for at, line in enumerate(log) if line.endswith(f"Requeuing JobId={job}")]
    return any(0 < later - at <= SOON for at in twice for later in back)


def blame(job: str, lines: Sequence[str], changes: Sequence[str]) -> str:
    """Why a job ran again: a stop behind its end, one before it that did not end it, or none.

    Parameters
    ----------
    lines
        What the job wrote down, an end and a start behind it among them.
    changes
        As of `stops_of`.
    """
    words = [line.split() for line in lines]
    kinds, at_s = [one[0] for one in words], [float(one[1]) for one in words]
    ended = kinds.index("end")
    began_s = max(at for kind, at in zip(kinds[:ended], at_s, strict=False) if kind == "start")
    end_s, again_s = at_s[ended], at_s[kinds.index("start", ended)]
    stops_s = stops_of(changes).get(job, ())
    if any(end_s < stop_s < again_s for stop_s in stops_s):
        return "ran_again"
    return "unreached" if any(began_s < stop_s <= end_s for stop_s in stops_s) else "by_slurm"


def stops_of(changes: Sequence[str]) -> dict[str, list[float]]:
    """When stops were carried out, by job.

    Parameters
    ----------
    changes
        What reached Slurm's own command: id, instant, words; or id and ``refused``.
    """
    said = [line.split() for line in changes]
    refused = {one[0] for one in said if one[1] == "refused"}
    stops: dict[str, list[float]] = {}
    for one in said:
        if one[2:4] == ["requeue", "Incomplete"] and one[0] not in refused:
            stops.setdefault(one[4], []).append(float(one[1]))
    return stops


def commands_of(lines: Sequence[str]) -> tuple[set[str], int]:
    """Jobs that an audit log has commands for, and how many were carried out."""
    jobs: set[str] = set()
    did = 0
    for line in lines:
        with suppress(ValueError):  # cut by a kill
            entry = json.loads(line)
            if "doing" in entry:
                said = " ".join(entry["commands"])
                jobs |= set(re.findall(r"(?:JobId=|Incomplete )([0-9]+)", said))
            else:
                did += sum(one["outcome"] == "did" for one in entry.get("commands", ()))
    return jobs, did
