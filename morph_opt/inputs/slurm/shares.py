"""Reader of shares: ``sacctmgr -P show assoc format=Account,ParentName,User,Share``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents.source import stream_lines
from morph_opt.core.domain import InputError
from morph_opt.inputs.slurm.conf import MOST_BYTES

ROOT = "root"


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


def read_shares(path: Path) -> tuple[Association, ...]:
    """Read the associations of a cluster.

    Raises
    ------
    InputError
        If columns are missing or a row has no number of shares; the message names file and line.
    """
    return tuple(_rows(path))


def _rows(path: Path) -> Iterator[Association]:
    header: list[str] | None = None
    for line, text in stream_lines(path, MOST_BYTES):
        cells = [cell.strip() for cell in text.rstrip("\n").split("|")]
        if not any(cells):
            continue
        if header is None:
            header = [cell.lower() for cell in cells]
            missing = {"account", "user", "share"} - set(header)
            if missing:
                rule = "must have the columns Account, User and Share, separated by |"
                raise InputError(rule, file=str(path), line=line)
            continue
        row = dict(zip(header, cells, strict=False))
        if len(cells) < len(header) or {"account", "user", "share"} <= set(cells):
            return  # another table follows, as in a file of several commands
        shares = row["share"]
        if shares.lower() == "parent" or not _is_number(shares):
            rule = f"must be a number of shares, got {shares!r}"
            raise InputError(rule, file=str(path), line=line, field="Share")
        top = row["account"] == ROOT
        parent = row.get("parentname", "") or ("" if top else ROOT)
        yield Association(row["account"], row["user"], float(shares), "" if top else parent)


def _is_number(text: str) -> bool:
    try:
        return 0.0 <= float(text) < 1e12
    except ValueError:
        return False
