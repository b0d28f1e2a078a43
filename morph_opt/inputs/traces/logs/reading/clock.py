"""Times of logs: seconds since 1970 of dates with a zone or without, and of numbers."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.reading.quantities import number_of

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d):([0-5]\d)(?::([0-5]\d(?:\.\d{1,9})?))?"
    r"(Z|[+-]\d\d:?\d\d|[+-]\d\d)?",
    re.ASCII,
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?([0-5]\d)", re.ASCII)
_CLOCK = r"(?P<time>\d\d:[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?)"
_ZONE = r" ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?(?: UTC| GMT)?"
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = r"(?P<name>[A-Za-z]{3})[a-z]*\.?"
_WEEKDAY = r"(?:[A-Z][a-z]{2,8},? +)?"
_OTHERS = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"(?P<y>\d{{4}})[-/.](?P<m>\d\d?)[-/.](?P<d>\d\d?)[T ] ?{_CLOCK}{_ZONE}",
        rf"(?P<y>\d{{4}})(?P<m>\d\d)(?P<d>\d\d)T?(?P<h>\d\d)(?P<min>\d\d)(?P<s>\d\d){_ZONE}",
        rf"(?P<d>\d\d?)\.(?P<m>\d\d?)\.(?P<y>\d{{4}}),? {_CLOCK}{_ZONE}",
        rf"(?P<one>\d\d?)[/-](?P<two>\d\d?)[/-](?P<y>\d{{4}}),? {_CLOCK}{_ZONE}",
        rf"{_WEEKDAY}{_MONTH} +(?P<d>\d\d?),? {_CLOCK}{_ZONE},? (?P<y>\d{{4}})",
        rf"{_WEEKDAY}{_MONTH} +(?P<d>\d\d?),? (?P<y>\d{{4}}),? {_CLOCK}{_ZONE}",
        rf"{_WEEKDAY}(?P<d>\d\d?)[ -]{_MONTH}[ -](?P<y>\d{{4}}),? {_CLOCK}{_ZONE}",
    )
)
"""Patterns of times with slashes, dots, names of months, or no marks."""

EPOCH_FROM = 1e8
"""Least number that counts as seconds since 1970 in a log with dates: March 1973."""
_SCALES = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (math.inf, 1e9))
"""Units per second of an instant below each limit: seconds, milli-, micro-, nanoseconds."""
MILLISECONDS_FROM = _SCALES[0][0]
"""Least number that counts as milliseconds: as seconds it would be in the year 5138."""
_UNSET = frozenset((2.0**31 - 1, 2.0**32 - 2, 2.0**32 - 1))
"""Largest numbers of 31 and 32 bits, which schedulers store for "no time"."""
_UNSET_UNTIL, _UNSET_FROM = 2 * 86400.0, 7_258_118_400.0
"""Bounds of instants that mean "no time": in 1970, or from the year 2200 on."""
_FAR_S = 3600.0
"""Least submission time, in seconds, at which an instant of 0 means "no time"."""


def zone_of(name: str) -> tzinfo:
    """Return the zone of an IANA name (``Asia/Shanghai``), ``UTC`` or an offset (``+08:00``).

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
        except (OSError, ValueError, KeyError):  # unknown, or no file of a zone
            pass
    rule = f"unknown time zone {name!r}; give a name like Europe/Berlin, UTC, or an offset"
    raise InputError(rule, field="timezone")


def epoch_s(value: float) -> float:
    """Return seconds since 1970 of a number of seconds, milli-, micro- or nanoseconds.

    >>> [epoch_s(value) for value in (1714550400, 1714550400000, 1714550400e9)]
    [1714550400.0, 1714550400.0, 1714550400.0]
    """
    return value / next(scale for limit, scale in _SCALES if abs(value) < limit)


def is_unset(instant_s: float, submit_s: float) -> bool:
    """Return whether an instant means "no time": 0, -1, 1970, or beyond all calendars."""
    if submit_s >= EPOCH_FROM:
        past = instant_s <= _UNSET_UNTIL or instant_s >= _UNSET_FROM
        return past or instant_s in _UNSET
    return instant_s == -1.0 or (instant_s == 0.0 and submit_s > _FAR_S)


class Clock:
    """Reader of the times of one log that counts those without a zone.

    Parameters
    ----------
    zone
        Name of the zone of times that name none.
    numbers
        Whether times may be numbers since 1970.

    Attributes
    ----------
    naive
        Times read so far that named no zone.
    ambiguous
        Number of these in an hour that exists twice, or not at all, when clocks are changed.
    zoned
        Times read so far that named a zone, or were numbers of seconds since 1970.

    Raises
    ------
    InputError
        If there is no such zone.
    """

    def __init__(self, zone: str, *, numbers: bool = False) -> None:
        self.zone = zone
        self.numbers = numbers
        self.naive = 0
        self.ambiguous = 0
        self.zoned = 0
        self._zone = zone_of(zone)
        self._hour = lru_cache(maxsize=4096)(self._hour_of)

    def seconds(self, text: str) -> float:
        """Return seconds since 1970.

        Parameters
        ----------
        text
            A time as ISO 8601 or with slashes, dots or the name of a month; or a number of
            seconds, milli-, micro- or nanoseconds since 1970.

        Raises
        ------
        InputError
            If the text is no such time, has no year, or may be of two days: ``05/01/2024``.
        """
        found = _TIME.fullmatch(text)
        if found is None:
            other = _iso_of(text)
            if other is None:
                return self._number(text)
            found = _TIME.fullmatch(other)
            assert found is not None
        hour, minute, second, offset = found.groups()
        base, ambiguous = self._hour(hour, offset)
        if offset is None:
            self.naive += 1
            self.ambiguous += ambiguous
        else:
            self.zoned += 1
        return base + 60 * int(minute) + (float(second) if second else 0.0)

    def _number(self, text: str) -> float:
        """Return the instant of a number since 1970."""
        value = number_of(text) if self.numbers else None
        if value is None or value < EPOCH_FROM:
            raise InputError(f"must be a time like 2023-07-01 09:30:00, got {text!r}")
        self.zoned += 1
        return epoch_s(value)

    def _hour_of(self, hour: str, offset: str | None) -> tuple[float, bool]:
        """Return the beginning of an hour, and whether a clock change makes it ambiguous."""
        try:
            begin = datetime.fromisoformat(f"{hour}:00:00")
            if offset is not None:
                minutes = offset[-2:] if len(offset) > 3 else "00"
                shift = "Z" if offset == "Z" else f"{offset[:3]}:{minutes}"
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
    """Return the instants of ``from..to``: dates on absolute clocks, else seconds.

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
        number = number_of(word)
        if absolute is not False and number is None:
            ends[i] = _instant(clock, word)
        elif number is not None and not absolute:
            ends[i] = number
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


def _iso_of(text: str) -> str | None:
    """Return a time in another notation as ISO 8601; None if it is none.

    Raises
    ------
    InputError
        If day and month are ambiguous.
    """
    found = next(filter(None, (form.fullmatch(text) for form in _OTHERS)), None)
    if found is None:
        return None
    known = found.groupdict()
    day, month = known.get("d"), known.get("m")
    if known.get("one"):
        first, second = int(known["one"]), int(known["two"])
        if first <= 12 and second <= 12 and first != second:
            year = known["y"]
            rule = f"may be of {year}-{first:02d}-{second:02d} or {year}-{second:02d}-{first:02d}"
            raise InputError(f"{rule}, got {text!r}: write the year first")
        day, month = known["one"], known["two"]
        if first <= 12:
            day, month = month, day
    elif known.get("name"):
        name = known["name"].lower()
        if name not in _MONTHS:
            return None
        month = str(_MONTHS.index(name) + 1)
    clock = known.get("time") or f"{known['h']}:{known['min']}:{known['s']}"
    zone = known.get("zone") or ""
    zone = "Z" if zone in ("UTC", "GMT") else zone
    date = f"{known['y']}-{int(month or 0):02d}-{int(day or 0):02d}"
    return f"{date} {clock.replace(',', '.')}{zone}"
