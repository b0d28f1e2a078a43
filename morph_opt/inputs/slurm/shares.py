"""Reader of shares: ``sacctmgr -P show assoc format=Account,ParentName,User,Share``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from morph_opt.core.domain import InputError
from morph_opt.inputs.slurm.tables import SlurmTable

ROOT = "root"
LIMITS = (
    "grpjobs", "grptres", "grpwall", "grptresmins", "grptresrunmins", "maxjobs", "maxtres",
    "maxtrespernode", "maxwall", "maxtresmins",
)  # fmt: skip
"""Columns of an association with limits, which are not modelled."""


@dataclass(frozen=True, slots=True)
class Association:
    """Row of the associations: an account, or a user of an account.

    Parameters
    ----------
    account
        The account.
    user
        "" for the account itself.
    shares
        Raw shares among the siblings.
    parent
        Account above an account; "" for the root.
    """

    account: str
    user: str
    shares: float
    parent: str = ""


def associations(table: SlurmTable) -> Iterator[Association]:
    """Yield the associations of a table.

    Raises
    ------
    InputError
        If a row has no number of shares; the message names file and line.
    """
    for line, row in table.rows:
        shares = row["share"]
        if shares.lower() == "parent" or not _is_number(shares):
            rule = f"must be a number of shares, got {shares!r}"
            raise InputError(rule, file=table.file, line=line, field="Share")
        top = row["account"] == ROOT
        parent = row.get("parentname", "") or ("" if top else ROOT)
        yield Association(row["account"], row["user"], float(shares), "" if top else parent)


def limits_of_associations(table: SlurmTable) -> tuple[str, ...]:
    """Return the columns with limits that some association sets."""
    names = [name for name in LIMITS if any(row.get(name) for _, row in table.rows)]
    return tuple(f"associations: {name}" for name in names)


def _is_number(text: str) -> bool:
    try:
        return 0.0 <= float(text) < 1e12
    except ValueError:
        return False
