"""Errors shown in one line: bad input, and user code or solvers that break their contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

MOST_SHOWN = 120
"""Largest number of characters of a word, quotation or field from outside in a message."""
MOST_RULE = 700
"""Largest number of characters of a whole message, lists of known names included."""
_QUOTED = re.compile(rf"(?<!\w)(['\"])(?:(?!\1).){{{MOST_SHOWN + 1},}}\1")
_WORD = re.compile(rf"\S{{{MOST_SHOWN + 1},}}")


def shown(text: str, most: int = MOST_SHOWN) -> str:
    """Return text from outside for a message: one line, no control characters, shortened."""
    if len(text) > most:
        text = text[: most - 3] + "..."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def some(names: Sequence[str], most: int = 6) -> str:
    """Return names as text: the first few, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _shown_rule(rule: str) -> str:
    """Return a message with every long quotation and word shortened."""
    if len(rule) > MOST_SHOWN:
        for pattern in (_QUOTED, _WORD):
            rule = pattern.sub(lambda found: shown(found[0]), rule)
    return shown(rule, MOST_RULE)


def _shown_file(file: str) -> str:
    """Return a path, shortened to its end if it is long."""
    return shown(file if len(file) <= MOST_RULE // 2 else "..." + file[-MOST_SHOWN:], MOST_RULE)


_on_command_line: ContextVar[bool] = ContextVar("on_command_line", default=False)
_KEYWORDS = {"--job": "jobs", "--load": "loads", "--max-nodes": "most"}
"""Parameters of public functions by option, if their names differ."""


@contextmanager
def on_command_line() -> Iterator[None]:
    """Name options instead of parameters in errors raised within this context."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def typed(option: str) -> str:
    """Return an option's name where it is used: the option on a command line, else the parameter.

    >>> typed("--skip-impossible")
    'skip_impossible'
    """
    if _on_command_line.get() or not option.startswith("--"):
        return option
    return _KEYWORDS.get(option, option[2:].replace("-", "_"))


class InputError(ValueError):
    """Error of the input, with file, line, field and rule.

    Parameters
    ----------
    rule
        Rule that must hold, as a sentence: ``"must be a positive number, got -3"``.
    file, line, field
        Place of the refused value; left out of the message if None. An option is given as on
        command lines and shown as `typed`.

    Notes
    -----
    Command lines print ``str(error)`` and exit with 2; no traceback is shown. The message is one
    line without control characters, and what it repeats of a file is cut (`shown`); ``rule``,
    ``file`` and ``field`` stay as they were given.
    """

    def __init__(
        self,
        rule: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> None:
        if not isinstance(rule, str):
            raise TypeError(f"InputError: rule must be text, got {rule!r}")
        self.rule = rule
        self.file = file
        self.line = line
        self.field = field = None if field is None else typed(field)
        place = [
            part
            for part in (
                None if file is None else _shown_file(file),
                None if line is None else f"line {line}",
                None if field is None else shown(field),
            )
            if part is not None
        ]
        message = _shown_rule(rule)
        super().__init__(": ".join([", ".join(place), message]) if place else message)

    def located(
        self, *, file: str | None = None, line: int | None = None, field: str | None = None
    ) -> InputError:
        """Return the error with its place filled in where that was unknown.

        Parameters
        ----------
        file, line, field
            Place; values that the error has already stay.
        """
        return InputError(
            self.rule,
            file=self.file if self.file is not None else file,
            line=self.line if self.line is not None else line,
            field=self.field if self.field is not None else field,
        )


class ContractError(RuntimeError):
    """Error of a user's policy or a solver that does not keep its contract.

    Command lines print ``str(error)`` and exit with 1.
    """
