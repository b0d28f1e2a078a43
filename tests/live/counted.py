"""What runs beside a real Slurm are counted by."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, fields
from pathlib import Path


@dataclass(slots=True)
class Counted:
    """What a run came to; everything from ``lost`` on must be 0.

    ``by_slurm`` are jobs that ran again after their end without a stop of ours since they began:
    slurmctld was killed before it had written down that they had ended, and requeued them as of a
    failed node. ``forgotten`` ended, and slurmctld, killed too soon to know that they had begun or
    ended, holds them. ``ran_again`` were stopped behind their end,
    ``unreached`` before it by a stop that did not end them. ``unread`` are answers of Slurm that
    the readers refuse, ``misread`` what they make of sacct that was not so.
    """

    jobs: int = 0
    restarts: int = 0
    commands: int = 0
    kills: int = 0
    by_slurm: int = 0
    forgotten: int = 0
    lost: int = 0
    unreached: int = 0
    ran_again: int = 0
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
