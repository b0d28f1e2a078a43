"""Published cases: what was expected, what we got, and which numbers count as equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RELATIVE = 1e-6
"""Tolerance of objective values."""

INSTANT_S = 1e-3
"""Tolerance of instants and durations, seconds."""


class NotRun(Exception):
    """A case that cannot be run here, with the reason."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not as published.

    Parameters
    ----------
    at
        Where it stands in the case, for example ``jobs[2].gpus``.
    expected, got
        The two values.
    """

    at: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return f"{self.at or 'value'}: expected {self.expected!r}, got {self.got!r}"


@dataclass(frozen=True, slots=True)
class Case:
    """One published case, read; not run yet.

    Parameters
    ----------
    part, name
        Part of the file that counts it, and its name there.
    run
        Runs our code and compares; raises `NotRun` where something is missing on this machine.
    """

    part: str
    name: str
    run: Callable[[], Iterable[Difference]]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A case that is not right: its first differences, or why it was not run."""

    part: str
    name: str
    differences: tuple[Difference, ...] = ()
    not_run: str = ""


@dataclass(slots=True)
class PartCount:
    """How many cases of a part are right."""

    right: int = 0
    wrong: int = 0
    not_run: int = 0

    @property
    def total(self) -> int:
        """All cases."""
        return self.right + self.wrong + self.not_run


@dataclass(slots=True)
class Outcome:
    """All cases of a file, run.

    Parameters
    ----------
    file
        As it was named.
    parts
        Counts by part, in the order of the file.
    wrong
        Every case that is wrong or was not run.
    """

    file: str
    parts: dict[str, PartCount] = field(default_factory=dict)
    wrong: list[Wrong] = field(default_factory=list)

    @property
    def all_right(self) -> bool:
        """Whether there is a case and every one is right."""
        return bool(self.parts) and not self.wrong

    def add(self, case: Case) -> None:
        """Run a case and count it; what our code raises makes it wrong."""
        count = self.parts.setdefault(case.part, PartCount())
        try:
            found = tuple(case.run())
        except NotRun as reason:
            count.not_run += 1
            self.wrong.append(Wrong(case.part, case.name, not_run=str(reason)))
            return
        except Exception as error:
            found = (Difference("", "an answer", f"{type(error).__name__}: {error}"),)
        if not found:
            count.right += 1
            return
        count.wrong += 1
        self.wrong.append(Wrong(case.part, case.name, found))


def differences(
    expected: Any, got: Any, at: str = "", *, relative: float = RELATIVE, absolute: float = 0.0
) -> Iterator[Difference]:
    """Every place where two documents differ, by keys and indices.

    Whole numbers against whole numbers, text and null must be equal; a number with a fraction on
    either side must agree to either tolerance. Of an object the keys must be the same.
    """
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        if set(expected) != set(got):
            yield Difference(at, sorted(map(str, expected)), sorted(map(str, got)))
            return
        for key, value in expected.items():
            where = f"{at}.{key}" if at else str(key)
            yield from differences(value, got[key], where, relative=relative, absolute=absolute)
    elif _is_list(expected) and _is_list(got):
        if len(expected) != len(got):
            yield Difference(at, list(expected), list(got))
            return
        for i, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from differences(one, other, f"{at}[{i}]", relative=relative, absolute=absolute)
    elif not _same(expected, got, relative, absolute):
        yield Difference(at, expected, got)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _same(expected: Any, got: Any, relative: float, absolute: float) -> bool:
    plain = [
        isinstance(value, bool) or not isinstance(value, int | float) for value in (expected, got)
    ]
    if any(plain):
        return all(plain) and type(expected) is type(got) and bool(expected == got)
    if isinstance(expected, int) and isinstance(got, int):
        return expected == got
    return math.isclose(expected, got, rel_tol=relative, abs_tol=absolute)
