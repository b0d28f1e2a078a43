"""Times of logs: seconds since 1970 of what is written with a zone, without one, or as a number."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from morph_opt.domain import InputError

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d):([0-5]\d)(?::([0-5]\d(?:\.\d{1,9})?))?"
    r"(Z|[+-]\d\d:?\d\d|[+-]\d\d)?",
    re.ASCII,
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?([0-5]\d)", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,12})?", re.ASCII)
_ELAPSED = re.compile(
    r"(?:([0-9]{1,6})-)?(?:([0-9]{1,6}):)?([0-9]{1,4}):([0-5][0-9])(?:\.[0-9]+)?", re.ASCII
)


def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name (``Asia/Shanghai``), ``UTC`` or an offset (``+08:00``).

    Raises
    ------
    InputError
        If there is no such zone.
    """
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign = 1 if offset[1] == "+" else -1
        width = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if width < timedelta(hours=24):
            return timezone(sign * width)
    elif name == "UTC":
        return UTC
    elif re.fullmatch(r"[A-Za-z][\w+-]*(?:/[\w+-]+){0,2}", name, re.ASCII):
        try:
            return ZoneInfo(name)
        except (OSError, ValueError):  # unknown (a KeyError too), or no file of a zone
            pass
        except KeyError:
            pass
    rule = f"unknown time zone {name!r}; give a name like Europe/Berlin, UTC, or an offset"
    raise InputError(rule, field="timezone")


def elapsed_s(text: str) -> float:
    """Seconds of ``[DAYS-][HOURS:]MINUTES:SECONDS``.

    Raises
    ------
    InputError
        If it is none.
    """
    found = _ELAPSED.fullmatch(text)
    if found is None:
        raise InputError(f"must be a duration like 1-02:03:04, got {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((24 * days + hours) * 60 + minutes) * 60 + seconds)


class Clock:
    """Reads the times of one log and counts those that name no zone.

    Parameters
    ----------
    zone
        Name of the zone of times that name none.

    Attributes
    ----------
    naive
        Times read so far that named no zone.
    ambiguous
        Of these, the ones in an hour that exists twice, or not at all, when clocks are changed.

    Raises
    ------
    InputError
        If there is no such zone.
    """

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.naive = 0
        self.ambiguous = 0
        self._zone = zone_of(zone)
        self._hour = lru_cache(maxsize=4096)(self._hour_of)

    def seconds(self, text: str) -> float:
        """Seconds since 1970.

        Raises
        ------
        InputError
            If the text is no time ``YYYY-MM-DD HH:MM[:SS[.sss]][Z|+HH:MM]``.
        """
        found = _TIME.fullmatch(text)
        if found is None:
            raise InputError(f"must be a time like 2023-07-01 09:30:00, got {text!r}")
        hour, minute, second, offset = found.groups()
        base, ambiguous = self._hour(hour, offset)
        if offset is None:
            self.naive += 1
            self.ambiguous += ambiguous
        return base + 60 * int(minute) + (float(second) if second else 0.0)

    def _hour_of(self, hour: str, offset: str | None) -> tuple[float, bool]:
        """Instant at which an hour begins, and whether it is one of two with that name, or none."""
        try:
            begin = datetime.fromisoformat(f"{hour}:00:00")
            if offset is not None:
                shift = (
                    "Z"
                    if offset == "Z"
                    else offset[:3] + ":" + (offset[-2:] * (len(offset) > 3) or "00")
                )
                return datetime.fromisoformat(f"{hour}:00:00{shift}").timestamp(), False
            first = begin.replace(tzinfo=self._zone)
            widths = {
                instant.replace(fold=fold).utcoffset()
                for instant in (first, first + timedelta(minutes=59))
                for fold in (0, 1)
            }
            return first.timestamp(), len(widths) > 1
        except (ValueError, OverflowError):
            raise InputError(f"must be a time that exists, got hour {hour!r}") from None


def window_of(text: str, zone: str, *, absolute: bool | None) -> tuple[float, float]:
    """The two instants of ``from..to``: dates and times on absolute clocks, else seconds.

    Either where ``absolute`` is None.

    Raises
    ------
    InputError
        If it is none, or the second instant is not after the first.
    """
    first, dots, last = text.partition("..")
    if not dots or not (first or last):
        raise InputError(f"must be FROM..TO, got {text!r}", field="window")
    ends = [-float("inf"), float("inf")]
    clock = Clock(zone)
    for i, word in enumerate((first, last)):
        if not word:
            continue
        number = _NUMBER.fullmatch(word)
        if absolute is not False and not number:
            ends[i] = _instant(clock, word)
        elif number and not absolute:
            ends[i] = float(word)
        else:
            rule = "must be a date or a time" if absolute else "must be seconds, as this log has"
            raise InputError(f"{rule}, got {word!r}", field="window")
    if not ends[0] < ends[1]:
        raise InputError(f"must end after it begins, got {text!r}", field="window")
    return ends[0], ends[1]


def _instant(clock: Clock, word: str) -> float:
    try:
        return clock.seconds(f"{word} 00:00:00" if _DAY.fullmatch(word) else word)
    except InputError as error:
        raise error.located(field="window") from None
