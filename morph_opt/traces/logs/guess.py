"""Which format a log is, by header and keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from morph_opt.documents import parse_json
from morph_opt.domain import InputError
from morph_opt.traces.logs.reading.reader import Head
from morph_opt.traces.logs.reading.records import json_items, json_keys, table_lines
from morph_opt.traces.logs.registry import LOG_FORMATS


class UnknownFormat(InputError):
    """A file is a log of no format that is known."""


def guessed(path: Path) -> tuple[str, dict[str, str]]:
    """Name of the one format that a log can be, and the options that its layout needs.

    Raises
    ------
    InputError
        If it can be none (`UnknownFormat`), or several.
    """
    head = _head(path)
    found: dict[str, dict[str, str]] = {}
    for name, known in LOG_FORMATS.items():
        try:
            layout = known.reader.layout(head)
        except InputError:  # a first line that is none of that format
            continue
        if layout is not None:
            found[name] = layout
    if not found:
        rule = f"is of no known format; known are {', '.join(LOG_FORMATS)} (--format)"
        raise UnknownFormat(rule, file=str(path))
    if len(found) > 1:
        rule = f"can be {' or '.join(found)}; say which it is with --format"
        raise InputError(rule, file=str(path))
    return next(iter(found.items()))


def _head(path: Path) -> Head:
    if path.is_dir():
        return Head(files=frozenset(one.name for one in path.iterdir()))
    line = next(_uncommented(path), "")
    if line[:1] not in ("{", "["):
        return Head(line)
    keys = json_keys(path) if line[0] == "{" else ()
    entry: Any = {}
    if line[0] == "[" or "items" in keys:
        _, text = next(json_items(path, "items" if keys else None), (0, "{}"))
        entry = parse_json(text, str(path))
    return Head("", frozenset(keys), entry if isinstance(entry, dict) else {})


def _uncommented(path: Path) -> Iterator[str]:
    """Lines that are no comments, without surrounding blanks."""
    for _, line in table_lines(path):
        if not line.startswith(";"):
            yield line.strip()
