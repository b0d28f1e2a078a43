"""Parsers of JSON and TOML that limit size, depth and numbers and refuse duplicate keys."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from morph_opt.core.documents.source import (
    BYTES_PER_VALUE,
    DEPTH,
    JSON_BYTES,
    KEY_PARTS,
    LIMIT_VARIABLE,
    LINES_BYTES,
    TEXT_CHARACTERS,
    TOML_BYTES,
    raised,
    read_text,
)
from morph_opt.core.domain.errors import InputError

_LARGEST = 1 << 1023
"""Bound of whole numbers: smaller ones convert to a finite double."""

_TOML_LINE = re.compile(r" \(at line (\d+), column \d+\)")
# Strings and comments; one that does not end runs to the end of the text, so that the search is
# linear whatever the text is.
_OPAQUE = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"""|\\?\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n])*+(?:"|\n|\Z|\\)'
    r"|'[^'\n]*+(?:'|\n|\Z)"
    r"|#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w.-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{KEY_PARTS}}}")


def read_json(path: Path | str) -> Any:
    """Read the value of a JSON file (``.gz`` and ``.xz`` are unpacked).

    Raises
    ------
    InputError
        As `morph_opt.core.documents.source.read_text` and `parse_json`.
    """
    return parse_json(read_text(path, JSON_BYTES), str(path))


def read_toml(path: Path | str) -> tuple[dict[str, Any], str]:
    """Read the tables and the text of a TOML file.

    Raises
    ------
    InputError
        As `morph_opt.core.documents.source.read_text` and `parse_toml`.
    """
    text = read_text(path, TOML_BYTES)
    return parse_toml(text, str(path)), text


def read_lines(path: Path | str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers from 1, without blank lines.

    Raises
    ------
    InputError
        As `morph_opt.core.documents.source.read_text`.
    """
    text = read_text(path, LINES_BYTES)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line.removesuffix("\r")


def parse_json(
    text: str, file: str | None, *, first_line: int = 1, characters: int = TEXT_CHARACTERS
) -> Any:
    """Return the value of a JSON text.

    Parameters
    ----------
    text, file
        The text, and its name in errors.
    first_line
        Number of its first line in the file, for files of JSON lines.
    characters
        Largest number of characters of a string in it.

    Raises
    ------
    InputError
        If it is not JSON, names a key of an object twice, or breaks a limit of
        `morph_opt.core.documents.source`.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
            raise InputError("is given twice in one object", file=file, field=twice)
        return found

    most = raised(JSON_BYTES) // BYTES_PER_VALUE
    if sum(map(text.count, ",[{")) > most:
        rule = f"must hold at most {most} values; {LIMIT_VARIABLE} raises that"
        raise InputError(rule, file=file)
    line: int | None = None
    try:
        value = json.loads(text, object_pairs_hook=unique)
        require_bounded(value, file, characters)
    except json.JSONDecodeError as error:
        line, rule = first_line + error.lineno - 1, f"is not JSON: {error.msg}"
    except InputError as error:
        raise error.located(line=first_line if first_line > 1 else None) from None
    except RecursionError:
        rule = f"must be nested at most {DEPTH} levels deep"
    except ValueError:  # of `int`: more digits than it takes
        rule = "must hold numbers that a computer can hold, one has thousands of digits"
    else:
        return value
    place = line if line is not None or first_line == 1 else first_line
    raise InputError(rule, file=file, line=place)


def parse_toml(text: str, file: str | None) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises
    ------
    InputError
        If it is not TOML, or breaks a limit of `morph_opt.core.documents.source`.
    """
    if len(text) > raised(TOML_BYTES):
        rule = f"must have at most {raised(TOML_BYTES)} characters; {LIMIT_VARIABLE} raises that"
        raise InputError(rule, file=file)
    if _LONG_KEY.search(_OPAQUE.sub("s", text)):
        raise InputError(f"must have keys of at most {KEY_PARTS} dotted parts", file=file)
    try:
        tables = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        found = _TOML_LINE.search(str(error))
        rule = "is not TOML: " + _TOML_LINE.sub("", str(error))
        raise InputError(rule, file=file, line=int(found[1]) if found else None) from None
    except RecursionError:
        rule = f"must be nested at most {DEPTH} levels deep"
        raise InputError(rule, file=file) from None
    except ValueError as error:  # of `int` and of dates
        raise InputError(f"is not TOML that can be read: {error}", file=file) from None
    try:
        require_bounded(tables, file)
    except InputError as error:
        raise error.located(line=key_lines(text).get(error.field or "")) from None
    return tables


def require_bounded(document: Any, file: str | None, characters: int = TEXT_CHARACTERS) -> None:
    """Refuse deep nesting, numbers without a finite double, and overlong strings.

    Raises
    ------
    InputError
        Naming the path of the value.
    """
    waiting: list[tuple[Any, int, Any]] = [({"": document}, 0, None)]
    while waiting:
        here, depth, path = waiting.pop()
        if depth > DEPTH:
            raise InputError(f"must be nested at most {DEPTH} levels deep", file=file)
        named = isinstance(here, dict)
        items: Iterable[tuple[Any, Any]] = here.items() if named else enumerate(here)
        for name, value in items:
            kind = type(value)
            if kind is dict or kind is list:
                waiting.append((value, depth + 1, (path, name)))
                continue
            # Written out: a call for each of a million values is most of what this takes.
            if kind is str and len(value) > characters:
                rule = f"must be text of at most {characters} characters, got {len(value)}"
            elif kind is float and not isfinite(value):
                rule = "must be a finite number"
            elif kind is int and not -_LARGEST < value < _LARGEST:
                rule = "must be a finite number, it is larger than a double can hold"
            elif named and len(name) > characters:
                rule = f"must have a name of at most {characters} characters"
            else:
                continue
            raise InputError(rule, file=file, field=_joined((path, name)))


def _joined(path: Any) -> str | None:
    """Return the path of a chain of (chain above, name or index), such as ``jobs[2].name``."""
    parts: list[str] = []
    while path is not None:
        path, name = path
        parts.append(f"[{name}]" if isinstance(name, int) else f".{name}" if name else "")
    return "".join(reversed(parts)).lstrip(".") or None


_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*(\"[^\"]*\"|'[^']*'|[A-Za-z0-9_.-]+)\s*=")

_LONGEST = 1_000
"""Length of a line above which it is skipped: the patterns take quadratic time."""


def key_lines(text: str) -> dict[str, int]:
    """Return the line number of every table header and key of a TOML text.

    Returns
    -------
    dict
        ``"node_type.a"`` and ``"node_type.a.gpus"`` for tables, ``"nodes[0]"`` and
        ``"nodes[0].count"`` for arrays of tables, to line numbers from 1. Good for the layout
        that specs are written in; a key that it misses has no line.
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    prefix = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > _LONGEST:
            continue
        header = _HEADER.match(line)
        if header:
            name = _plain(header.group(2))
            if header.group(1) == "[[":
                index = counts.get(name, 0)
                counts[name] = index + 1
                name = f"{name}[{index}]"
            prefix = name
            lines.setdefault(name, number)
            for dot in (i for i, letter in enumerate(name) if letter == "."):
                lines.setdefault(name[:dot], number)  # the tables above begin here too
            continue
        key = _KEY.match(line)
        if key:
            path = _plain(key.group(1))
            lines.setdefault(f"{prefix}.{path}" if prefix else path, number)
    return lines


def _plain(path: str) -> str:
    """Return a dotted path without quotes and blanks around its parts."""
    return ".".join(
        part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", path)
    )
