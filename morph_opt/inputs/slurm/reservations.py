"""Reader of reservations: ``scontrol show res``, as text or with ``--json``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from morph_opt.core.documents import Fields, parse_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.reservation import Reservation
from morph_opt.inputs.slurm.hostlist import expand_hosts

_EMPTY = "No reservations in the system"
_EVERY_S = {"HOURLY": 3_600.0, "DAILY": 86_400.0, "WEEKLY": 7 * 86_400.0}
_REFUSED = ("WEEKDAY", "WEEKEND", "TIME_FLOAT", "PART_NODES", "CORE_CNT")
"""Flags by which nodes or times are others than the output states."""
_PAIR = re.compile(r"(\w+)=((?:(?!\s+\w+=).)*)")


def is_reservations(text: str) -> bool:
    """Return whether a text is the output of ``scontrol show res``."""
    head = text.lstrip()[:80]
    return head.startswith(("{", "ReservationName=", _EMPTY))


def parse_reservations(text: str, file: str = "reservations") -> Iterator[Reservation]:
    """Yield the reservations of an output; instants without a zone are in UTC.

    Raises
    ------
    InputError
        If the text is no such output, or a reservation is of a kind that is not modelled; the
        message names both.
    """
    if text.lstrip().startswith("{"):
        content = Fields(parse_json(text, file), "", file, None)
        for row in content.objects("reservations", None):
            yield _of_json(row, file)
        return
    if text.strip().startswith(_EMPTY):
        return
    for block in re.split(r"\n\s*\n|\n(?=ReservationName=)", text.strip()):
        pairs = {
            key: value.strip() for line in block.splitlines() for key, value in _PAIR.findall(line)
        }
        if "ReservationName" not in pairs:
            rule = f"must be the output of scontrol show res, got {block[:60]!r}"
            raise InputError(rule, file=file)
        yield _built(
            pairs["ReservationName"],
            _instant(pairs.get("StartTime", ""), file, "StartTime"),
            _instant(pairs.get("EndTime", ""), file, "EndTime"),
            pairs.get("Nodes", ""),
            pairs.get("Users", ""),
            pairs.get("Accounts", ""),
            pairs.get("Flags", "").split(","),
            file,
        )


def _of_json(row: Fields, file: str) -> Reservation:
    def instant(name: str) -> float:
        if isinstance(row.raw(name, None), dict):  # from Slurm 23.02 on
            return row.object(name, None).number("number")
        return row.number(name)

    return _built(
        row.text("name"),
        instant("start_time"),
        instant("end_time"),
        row.word("node_list"),
        row.word("users"),
        row.word("accounts"),
        [str(flag) for flag in row.raw("flags", None) or ()],
        file,
    )


def _built(
    name: str,
    begin_s: float,
    end_s: float,
    nodes: str,
    users: str,
    accounts: str,
    flags: Iterable[str],
    file: str,
) -> Reservation:
    words = {flag.strip().upper() for flag in flags}
    for flag in _REFUSED:
        if flag in words:
            rule = f"has the flag {flag}, which is not modelled"
            raise InputError(rule, file=file, field=f"reservation {name}")
    whose, tenants = _names(users, name, file), _names(accounts, name, file)
    if "MAINT" in words:
        whose = tenants = frozenset()
    hosts = _words(nodes)
    if not hosts and "ALL_NODES" not in words:
        rule = "names no nodes: licences and burst buffers are not modelled"
        raise InputError(rule, file=file, field=f"reservation {name}")
    every_s = next((_EVERY_S[flag] for flag in _EVERY_S if flag in words), None)
    named = frozenset(expand_hosts(nodes)) if hosts else None
    try:
        return Reservation(name, begin_s, end_s, named, whose, tenants, every_s)
    except InputError as error:
        raise error.located(file=file) from None


def _words(text: str) -> list[str]:
    return [] if text in ("", "(null)") else text.split(",")


def _names(text: str, name: str, file: str) -> frozenset[str]:
    found = _words(text)
    if any(one.startswith("-") for one in found):
        rule = f"excludes {text}: reservations for all but some are not modelled"
        raise InputError(rule, file=file, field=f"reservation {name}")
    return frozenset(found)


def _instant(text: str, file: str, key: str) -> float:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        rule = f"must be an instant like 2027-01-01T08:00:00, got {text!r}"
        raise InputError(rule, file=file, field=key) from None
