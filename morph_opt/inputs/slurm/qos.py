"""Reader of qualities of service: ``sacctmgr -P show qos``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from morph_opt.core.domain import InputError
from morph_opt.inputs.slurm.conf import read_number
from morph_opt.inputs.slurm.tables import SlurmTable

NORMAL = "normal"
"""Quality of service of a job that names none."""

Amounts = tuple[float, float, float, float]
"""Most GPUs, CPUs, nodes and jobs; infinite for no limit."""

_OF = {
    "all": ("grptres", "grpjobs"),
    "user": ("maxtrespu", "maxjobspu"),
    "account": ("maxtrespa", "maxjobspa"),
    "job": ("maxtres", ""),
}
"""Columns of a limit on resources and of one on jobs, by whose jobs count together."""
_LONG = {
    "maxtresperuser": "maxtrespu", "maxjobsperuser": "maxjobspu", "maxtresperjob": "maxtres",
    "maxtresperaccount": "maxtrespa", "maxjobsperaccount": "maxjobspa",
}  # fmt: skip
"""Other names of these columns."""
_AT = {"gres/gpu": 0, "cpu": 1, "node": 2}
_SILENT = frozenset(
    ("name", "priority", "gracetime", "preemptmode", "preemptexempttime", "descr", "id",
     "grpsubmit", "maxsubmitpu", "maxsubmitpa", "maxsubmitperuser", "maxsubmitperaccount")
)  # fmt: skip
"""Columns that decide nothing about when a submitted job starts."""
_NOTHING = ("", "0", "1.000000", "00:00:00", "1", "cluster")


@dataclass(frozen=True, slots=True)
class Qos:
    """Quality of service.

    Parameters
    ----------
    name, priority
        Its name, and its priority among the others.
    most
        Limits by whose jobs count together: ``all``, ``user``, ``account`` or ``job``.
    unmodelled
        Columns that it sets and no rule follows.
    """

    name: str
    priority: float
    most: tuple[tuple[str, Amounts], ...] = ()
    unmodelled: tuple[str, ...] = ()


def qualities(table: SlurmTable) -> Iterator[Qos]:
    """Yield the qualities of service of a table.

    Raises
    ------
    InputError
        If a priority or a limit is no number; the message names file, line and column.
    """
    for line, cells in table.rows:
        row = {_LONG.get(name, name): text for name, text in cells.items()}
        try:
            yield _quality(row)
        except InputError as error:
            raise error.located(file=table.file, line=line) from None


def amounts_of(row: Mapping[str, str], tres: str, jobs: str) -> tuple[Amounts, list[str]]:
    """Return what columns of resources and of jobs allow, and resources that are not counted."""
    amounts, others = [math.inf] * 4, list[str]()
    for part in filter(None, row.get(tres, "").split(",")):
        name, _, amount = part.partition("=")
        if name in _AT:
            amounts[_AT[name]] = read_number(tres, amount)
        else:
            others.append(f"{tres} {name}")
    if row.get(jobs, ""):
        amounts[3] = read_number(jobs, row[jobs])
    return (amounts[0], amounts[1], amounts[2], amounts[3]), others


def _quality(row: dict[str, str]) -> Qos:
    most: list[tuple[str, Amounts]] = []
    unmodelled: list[str] = []
    read = {*_SILENT}
    for whose, (tres, jobs) in _OF.items():
        read |= {tres, jobs}
        amounts, others = amounts_of(row, tres, jobs)
        unmodelled += others
        if min(amounts) < math.inf:
            most.append((whose, amounts))
    unmodelled += [name for name, text in row.items() if name not in read and text not in _NOTHING]
    priority = read_number("priority", row["priority"] or "0")
    return Qos(row["name"], priority, tuple(most), tuple(unmodelled))
