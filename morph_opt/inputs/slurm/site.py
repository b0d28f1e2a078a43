"""Files of a Slurm site next to slurm.conf: shares, qualities of service, reservations.

Each file is known by what is in it, so that they may be given in any order, and one file may hold
the tables of several commands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from morph_opt.core.documents.source import read_text
from morph_opt.core.domain import InputError
from morph_opt.core.domain.reservation import Reservation
from morph_opt.inputs.slurm.conf import MOST_BYTES
from morph_opt.inputs.slurm.qos import Qos, qualities
from morph_opt.inputs.slurm.reservations import is_reservations, parse_reservations
from morph_opt.inputs.slurm.shares import Association, associations, limits_of_associations
from morph_opt.inputs.slurm.tables import read_tables


@dataclass(frozen=True, slots=True)
class SiteFiles:
    """Settings of a site in files next to slurm.conf.

    Parameters
    ----------
    shares
        Associations; none if every user has equal shares.
    qos
        Qualities of service, by name.
    reservations
        Reservations, on the clock of the site.
    unmodelled
        Limits that are set and that no rule follows.
    """

    shares: tuple[Association, ...] = ()
    qos: dict[str, Qos] = field(default_factory=dict)
    reservations: tuple[Reservation, ...] = ()
    unmodelled: tuple[str, ...] = ()


def read_site_files(paths: Iterable[Path]) -> SiteFiles:
    """Read what ``sacctmgr -P show assoc``, ``... show qos`` and ``scontrol show res`` print.

    Raises
    ------
    InputError
        If a file is none of these, or cannot be read; the message names file and line.
    """
    shares: list[Association] = []
    qos: dict[str, Qos] = {}
    reservations: list[Reservation] = []
    unmodelled: list[str] = []
    for path in paths:
        text = read_text(path, MOST_BYTES)
        if is_reservations(text):
            reservations += parse_reservations(text, str(path))
            continue
        for table in read_tables(path):
            if table.has("account", "user", "share"):
                shares += associations(table)
                unmodelled += limits_of_associations(table)
            elif table.has("name", "priority"):
                found = list(qualities(table))
                qos |= {one.name: one for one in found}
                unmodelled += [
                    f"QOS {one.name}: {name}" for one in found for name in one.unmodelled
                ]
            else:
                rule = "must have the columns Account, User and Share (sacctmgr -P show assoc), or "
                rule += "Name and Priority (... show qos), or be the output of scontrol show res"
                raise InputError(rule, file=table.file, line=table.line)
    return SiteFiles(tuple(shares), qos, tuple(reservations), tuple(unmodelled))
