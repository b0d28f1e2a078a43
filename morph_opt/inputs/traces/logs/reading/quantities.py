"""Numbers and durations of logs in the notations that schedulers and spreadsheets write.

A number may have an exponent, any number of decimals, a decimal comma or marks between thousands;
a duration may be colon-separated, worded (``90 min``, ``3600 second(s)``, ``1h30m``) or ISO 8601.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from morph_opt.core.domain import InputError

_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII
)
_COMMA = re.compile(r"[+-]?[0-9]{1,30},[0-9]{1,40}", re.ASCII)
_THOUSANDS = re.compile(
    r"[+-]?[0-9]{1,3}(?:(?P<mark>[,.' ])[0-9]{3})(?:(?P=mark)[0-9]{3})*", re.ASCII
)
_COLONS = re.compile(
    r"(?:([0-9]{1,6})(?:-| days?,? ))?([0-9]{1,7}):([0-5]?[0-9])(?::([0-5]?[0-9]))?"
    r"(\.[0-9]{1,18})?",
    re.ASCII,
)
_DAYS_OF_FOUR = re.compile(r"([0-9]{1,6}):([0-9]{1,2}:[0-5][0-9]:[0-5][0-9])", re.ASCII)
_DAYS_HOURS = re.compile(r"([0-9]{1,6})-([0-9]{1,2})", re.ASCII)
_WORDED = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,18})?) ?([a-z]+)(?:\(s\)|\.)?(?:[, ] ?)?", re.ASCII)
_ISO = re.compile(
    r"P(?:([0-9.]+)W)?(?:([0-9.]+)D)?(?:T(?:([0-9.]+)H)?(?:([0-9.]+)M)?(?:([0-9.]+)S)?)?", re.ASCII
)

UNITS = {
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "wk", "week", "weeks"), 604800.0),
}
"""Seconds of each unit of time."""


def number_of(text: str) -> float | None:
    """Return a finite number; None for other text.

    >>> [number_of(text) for text in ("12", "3.0e-4", "1.05162e+06", "7,5", "1,234,567", "one")]
    [12.0, 0.0003, 1051620.0, 7.5, 1234567.0, None]

    Raises
    ------
    InputError
        If a mark may be that of decimals or of thousands: ``1,600``.
    """
    found = _plain(text)
    if found is None:
        return None
    value = float(found)
    return value if math.isfinite(value) else None


def fraction_of(text: str) -> Fraction | None:
    """Return a number exactly; None for other text; raises as `number_of`."""
    found = _plain(text)
    return None if found is None else Fraction(found)


def has_mark(text: str) -> bool:
    """Return whether a number has a decimal comma or marks between thousands."""
    return _NUMBER.fullmatch(text) is None


def _plain(text: str) -> str | None:
    """Return the number as Python writes it."""
    if _NUMBER.fullmatch(text):
        return text
    if not ("," in text or "'" in text or " " in text or text.count(".") > 1):
        return None
    for mark, other in ((",", "."), (".", ","), ("'", "."), (" ", ","), (" ", "."), ("'", ",")):
        head, found, tail = text.rpartition(other)
        body = head if found else text
        grouped = _THOUSANDS.fullmatch(body)
        if grouped and grouped["mark"] == mark and (not found or tail.isdecimal()):
            whole = body.replace(mark, "")
            if found:
                return f"{whole}.{tail}"
            if body.count(mark) == 1 and mark in ",.":
                rule = f"may be {whole} or {body.replace(mark, '.')}: write it without the mark"
                raise InputError(rule)
            return whole
    return text.replace(",", ".") if _COMMA.fullmatch(text) else None


def is_two_part(text: str) -> bool:
    """Return whether a duration is two numbers, hours and minutes or minutes and seconds."""
    found = _COLONS.fullmatch(text)
    return found is not None and found[1] is None and found[4] is None


def elapsed_s(text: str, *, hours_first: bool = False) -> float:
    """Return the seconds of a duration.

    Parameters
    ----------
    text
        ``[DAYS-][HOURS:]MINUTES:SECONDS``, ``DAYS-HOURS[:MINUTES]``, four parts from days on, ISO
        8601, or numbers with units.
    hours_first
        Whether two parts are hours and minutes.

    >>> [elapsed_s(text) for text in ("1-02:03:04", "2:03", "1-06", "90 min", "PT1H30M")]
    [93784.0, 123.0, 108000.0, 5400.0, 5400.0]

    Raises
    ------
    InputError
        If it is none of these.
    """
    found = _COLONS.fullmatch(text)
    if found is not None:
        days, first, second, third, part = found.groups()
        parts = [first, second, third]
        if third is None:  # after days, Slurm writes hours and minutes
            hours = part is None and (hours_first or days is not None)
            parts = [first, second, "0"] if hours else ["0", first, second]
        hours_, minutes, seconds = map(int, parts)
        whole = ((24 * int(days or 0) + hours_) * 60 + minutes) * 60 + seconds
        return whole + float(part or 0)
    if four := _DAYS_OF_FOUR.fullmatch(text):
        return 86400.0 * int(four[1]) + elapsed_s(four[2])
    if short := _DAYS_HOURS.fullmatch(text):
        return 86400.0 * int(short[1]) + 3600.0 * int(short[2])
    worded = _worded_s(text.lower())
    if worded is None:
        raise InputError(f"must be a duration like 1-02:03:04, got {text!r}")
    return worded


def _worded_s(text: str) -> float | None:
    """Return the seconds of numbers with units, or of ISO 8601; None for other text."""
    iso = _ISO.fullmatch(text.upper())
    if iso is not None and any(iso.groups()):
        try:
            parts = [float(one or 0) for one in iso.groups()]
        except ValueError:
            return None
        return sum(n * s for n, s in zip(parts, (604800, 86400, 3600, 60, 1), strict=True))
    total, at = 0.0, 0
    while at < len(text):
        one = _WORDED.match(text, at)
        if one is None or one[2] not in UNITS:
            return None
        total += float(one[1]) * UNITS[one[2]]
        at = one.end()
    return total if text else None
