"""Rules of a Slurm site: accounts as a tree of queues, limits of accounts, users and QOS."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from glob import escape
from pathlib import Path

from morph_opt.core.domain import InputError
from morph_opt.inputs.slurm.qos import Amounts, amounts_of, qualities
from morph_opt.inputs.slurm.shares import LIMITS, associations
from morph_opt.inputs.slurm.tables import SlurmTable, read_tables
from morph_opt.scheduling.decision.rules.model import OperatorRules, Rule
from morph_opt.scheduling.decision.rules.organisation import Queue, RunningLimit

_PER = {"all": "all", "user": "user", "account": "queue", "job": "job"}
"""Jobs that count together at a limit of a QOS."""
_READ = {"grptres", "grpjobs", "maxtres", "maxjobs"}
"""Limits of an association that are rules."""


def is_of_slurm(text: str) -> bool:
    """Return whether a text begins as a table of ``sacctmgr -P show``."""
    names = next((line for line in text.splitlines() if line.strip()), "").lower().split("|")
    return {"account", "user", "share"} <= {*names} or {"name", "priority"} <= {*names}


def read_accounts(path: Path) -> OperatorRules:
    """Read rules from what ``sacctmgr -P show assoc`` and ``... show qos`` print.

    An account is a queue without GPUs of its own: it has a place in the tree, a weight, and limits.

    Raises
    ------
    InputError
        If a table is neither, or sets a limit that no rule follows; the message names it.
    """
    rules: list[Rule] = []
    for table in read_tables(path):
        if table.has("account", "user", "share"):
            rules += _of_accounts(table)
        elif table.has("name", "priority"):
            rules += _of_qualities(table)
        else:
            rule = "must have the columns Account, User and Share, or Name and Priority"
            raise InputError(rule, file=table.file, line=table.line)
    try:
        return OperatorRules(tuple(rules))
    except InputError as error:
        raise error.located(file=str(path)) from None


def _of_accounts(table: SlurmTable) -> Iterator[Rule]:
    for (line, row), one in zip(table.rows, associations(table), strict=True):
        if not one.user:
            yield Queue(one.account, one.parent, weight=one.shares or 1.0)
        _refuse(table, line, [name for name in LIMITS if row.get(name) and name not in _READ])
        of_user = (escape(one.user),) if one.user else ("*",)
        for per, tres, jobs in (("all", "grptres", "grpjobs"), ("job", "maxtres", "")):
            yield from _limits(table, line, row, (per, tres, jobs), of_user, one.account)
        # A limit of jobs of an account is one of each of its users.
        per = "all" if one.user else "user"
        yield from _limits(table, line, row, (per, "", "maxjobs"), of_user, one.account)


def _limits(
    table: SlurmTable,
    line: int,
    row: Mapping[str, str],
    columns: tuple[str, str, str],
    users: tuple[str, ...],
    account: str,
) -> Iterator[RunningLimit]:
    per, tres, jobs = columns
    try:
        most, others = amounts_of(row, tres, jobs)
    except InputError as error:
        raise error.located(file=table.file, line=line) from None
    _refuse(table, line, [*others, *_uncounted(most, tres)])
    if min(most[0], most[3]) < math.inf:
        yield RunningLimit(per, _whole(most[0]), _whole(most[3]), users, (escape(account),))


def _of_qualities(table: SlurmTable) -> Iterator[Rule]:
    for (line, _), one in zip(table.rows, qualities(table), strict=True):
        uncounted = [text for whose, most in one.most for text in _uncounted(most, whose)]
        _refuse(table, line, [*one.unmodelled, *uncounted])
        for whose, most in one.most:
            gpus, jobs, qos = _whole(most[0]), _whole(most[3]), (escape(one.name),)
            yield RunningLimit(_PER[whose], gpus, jobs, qos=qos)


def _uncounted(most: Amounts, where: str) -> list[str]:
    return [f"{where} {name}" for name, n in zip(("cpu", "node"), most[1:3], strict=True)
            if n < math.inf]  # fmt: skip


def _whole(most: float) -> int | None:
    return None if most == math.inf else int(most)


def _refuse(table: SlurmTable, line: int, found: list[str]) -> None:
    if found:
        rule = f"sets {', '.join(found)}, which no rule follows: print the table without"
        raise InputError(rule, file=table.file, line=line)
