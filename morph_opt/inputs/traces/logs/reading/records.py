"""Records of a log with their lines: cells of a table, elements of a JSON list."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from morph_opt.core.documents import LINES_BYTES, Fields, Row, parse_json, stream_lines, stream_text
from morph_opt.core.documents.source import COLUMNS, LINE_CHARACTERS
from morph_opt.core.domain import InputError

_BLANKS = " \t\r\n"


class Record(NamedTuple):
    """One row of a log.

    Parameters
    ----------
    line
        Its first line.
    text
        Its text; equal texts are the same row twice.
    content
        Cells or fields; the complaint, if it is malformed.
    """

    line: int
    text: str
    content: Row | Fields | InputError


class MissingColumns(InputError):
    """Error: a table lacks columns, or its header."""

    def __init__(self, rule: str, columns: tuple[str, ...], file: str, line: int) -> None:
        super().__init__(rule, file=file, line=line, field=", ".join(columns))
        self.columns = columns
        self.none_is_there = False


def cells_of(text: str, separator: str) -> list[str]:
    """Split a line into cells; quotation marks are plain text if blanks or bars separate cells.

    Raises
    ------
    InputError
        If a quotation is not closed.
    """
    if separator == " ":
        return text.split()
    if separator == "|" or '"' not in text:
        return text.split(separator)
    try:
        return next(csv.reader([text], strict=True, delimiter=separator))
    except csv.Error as error:
        raise InputError(f"is not a CSV line: {error}") from None


def require_header(
    header: list[str], required: tuple[str, ...], file: str, line: int, lost: str
) -> None:
    """Refuse a header that is too wide, names a column twice or lacks some.

    Raises
    ------
    InputError
        `MissingColumns` for the last of these.
    """
    if len(header) > COLUMNS:
        rule = f"must have at most {COLUMNS} columns, got {len(header)}"
        raise InputError(rule, file=file, line=line)
    column, times = (
        Counter(name for name in header if name).most_common(1)[0] if any(header) else ("", 0)
    )
    missing = tuple(name for name in required if name not in header)
    # A line that names no column is no header, and may well have equal cells.
    if times > 1 and len(missing) < max(1, len(required)):
        raise InputError("column occurs twice", file=file, line=line, field=column)
    if missing:
        rule = f"column is missing: {lost} cannot be known"
        error = MissingColumns(rule, missing, file, line)
        error.none_is_there = len(missing) == len(required)
        raise error


def json_records(path: Path, key: str | None, required: tuple[str, ...]) -> Iterator[Record]:
    """Yield the objects of the list that a document is, or has under a key."""
    for line, text in json_items(path, key):
        yield json_record(path, line, text, required)


def json_record(path: Path, line: int, text: str, required: tuple[str, ...]) -> Record:
    """Return the record of an object, which must have some members."""
    content: Fields | InputError
    try:
        content = Fields(parse_json(text, str(path), first_line=line), "", str(path), None)
        for name in required:
            if not content.given(name):
                raise content.error(name, "is missing")
    except InputError as error:
        content = error.located(line=line)
    return Record(line, text, content)


def json_stream(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of each of a file's consecutive documents."""
    scanner = _Scanner(path)
    while scanner.peek():
        yield scanner.value()


def json_items(path: Path, key: str | None) -> Iterator[tuple[int, str]]:
    """Yield line and text of each element of the top list, or of the list under a top key.

    Raises
    ------
    InputError
        If the document is not JSON or has no such list, if anything follows it, or one
        element is larger than a line of a log may be.
    """
    scanner = _Scanner(path)
    names = set() if key is None else _go_to(scanner, key)
    if scanner.peek() != "[":
        what = "list" if key is None else f"list {key!r}"
        raise InputError(f"must be JSON with a {what}", file=str(path), line=scanner.line)
    scanner.take("[")
    while scanner.peek() != "]":
        yield scanner.value()
        if scanner.peek() != "]":
            scanner.take(",")
            if scanner.peek() == "]":
                raise scanner.wrong("a comma before ]")
    scanner.take("]")
    if key is not None:
        _go_through(scanner, names)
    if scanner.peek():
        rule = "must be one JSON document; another begins here"
        raise InputError(rule, file=str(path), line=scanner.line)


def json_member(path: Path, key: str) -> Any:
    """Return the value under a top key of a document.

    Raises
    ------
    InputError
        As `json_items`.
    """
    scanner = _Scanner(path)
    _go_to(scanner, key)
    line, text = scanner.value()
    return parse_json(text, str(path), first_line=line)


def json_keys(path: Path) -> tuple[str, ...]:
    """Return the names of the members of a document that is an object."""
    scanner = _Scanner(path)
    names = []
    scanner.take("{")
    while scanner.peek() == '"':
        names.append(_name(scanner))
        scanner.skip()
        if scanner.peek() == ",":
            scanner.take(",")
    return tuple(names)


def first_member(path: Path, names: frozenset[str]) -> str | None:
    """Return the first of these members that a document has; None if it has none of them."""
    scanner = _Scanner(path)
    if scanner.peek() != "{":
        return None
    scanner.take("{")
    while scanner.peek() == '"':
        if (name := _name(scanner)) in names:
            return name
        scanner.skip()
        if scanner.peek() == ",":
            scanner.take(",")
    return None


def _name(scanner: _Scanner) -> str:
    line, text = scanner.value()
    scanner.take(":")
    return str(parse_json(text, scanner.file, first_line=line))


def _go_to(scanner: _Scanner, key: str) -> set[str]:
    """Move to the value under a key; return the names before it."""
    if scanner.peek() != "{":
        raise InputError("must be a JSON object", file=scanner.file, line=scanner.line)
    scanner.take("{")
    names: set[str] = set()
    while scanner.peek() == '"':
        names.add(name := _name(scanner))
        if name == key:
            return names
        scanner.skip()
        if scanner.peek() == ",":
            scanner.take(",")
    raise InputError("is missing", file=scanner.file, field=key)


def _go_through(scanner: _Scanner, names: set[str]) -> None:
    """Move to the end of the current object, and refuse a second list of a name."""
    while scanner.peek() == ",":
        scanner.take(",")
        scanner.peek()
        line = scanner.line
        if (name := _name(scanner)) in names:
            raise InputError("occurs twice", file=scanner.file, line=line, field=name)
        names.add(name)
        scanner.skip()
    scanner.take("}")


class _Scanner:
    """Scanner of a JSON text that holds one value at a time."""

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self.line = 1
        self._pieces = stream_text(path, LINES_BYTES)
        self._text = ""
        self._at = 0
        self._decoder = json.JSONDecoder()

    def peek(self) -> str:
        """Return the next character that is no blank; "" at the end."""
        while True:
            while self._at < len(self._text):
                char = self._text[self._at]
                if char not in _BLANKS:
                    return char
                self.line += char == "\n"
                self._at += 1
            if not self._fill(1):
                return ""

    def take(self, char: str) -> None:
        """Move past a character that must come next."""
        if self.peek() != char:
            raise self.wrong(f"expecting {char!r}")
        self._at += 1

    def value(self) -> tuple[int, str]:
        """Return line and text of the next value."""
        self.peek()
        line = self.line
        while True:
            try:
                _, end = self._decoder.raw_decode(self._text, self._at)
                # A number at the end of what was read may go on.
                if end < len(self._text) or not self._fill(1):
                    break
            except json.JSONDecodeError as error:
                width = len(self._text) - self._at
                cut = error.pos > len(self._text) - 16 or error.msg.startswith("Unterminated")
                if width > LINE_CHARACTERS or not self._fill(max(1, width)):
                    self.line += self._text.count("\n", self._at, error.pos)
                    if cut and width > LINE_CHARACTERS:
                        rule = f"must have entries of at most {LINE_CHARACTERS} characters"
                        raise InputError(rule, file=self.file, line=line) from None
                    raise self.wrong(error.msg) from None
            except RecursionError:
                raise self.wrong("nested too deep") from None
            except ValueError:  # of `int`: more digits than it takes
                raise self.wrong("a number of thousands of digits") from None
        text = self._text[self._at : end]
        self.line += text.count("\n")
        self._at = end
        return line, text

    def skip(self) -> None:
        """Move past the next value, holding one element of a list at a time."""
        if self.peek() != "[":
            self.value()
            return
        self.take("[")
        while self.peek() != "]":
            self.value()
            if self.peek() == ",":
                self.take(",")
            elif self.peek() != "]":
                raise self.wrong("expecting ','")
        self.take("]")

    def wrong(self, what: str) -> InputError:
        """Return the error about this place."""
        return InputError(f"is not JSON: {what}", file=self.file, line=self.line)

    def _fill(self, characters: int) -> bool:
        """Read ``characters`` more characters; return whether any were left."""
        more: list[str] = []
        while characters > 0 and (piece := next(self._pieces, None)) is not None:
            more.append(piece)
            characters -= len(piece)
        if not any(more):
            return False
        self._text = self._text[self._at :] + "".join(more)
        self._at = 0
        return True


def table_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a log that are not blank."""
    for line, text in stream_lines(path, LINES_BYTES):
        if text and not text.isspace():
            yield line, text


def begins_with_brace(path: Path) -> bool:
    """Return whether a file is a JSON object rather than a table."""
    _, first = next(table_lines(path), (0, ""))
    return first.lstrip()[:1] == "{"
