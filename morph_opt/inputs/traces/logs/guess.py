"""Recognition of log formats by header and keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from morph_opt.core.documents import is_file, parse_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import typed
from morph_opt.inputs.traces.logs.formats.table import OwnTableReader, columns_of
from morph_opt.inputs.traces.logs.reading.reader import Head, Reader, TableReader
from morph_opt.inputs.traces.logs.reading.records import (
    json_items,
    json_keys,
    json_stream,
    table_lines,
)
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.inputs.traces.logs.registry import (
    LOG_FORMATS,
    LogSpec,
    log_format,
    require_format,
    windowed,
)

_LISTS = ("items", "jobs")
"""Keys under which documents have their list."""


class UnknownFormat(InputError):
    """Error: a file is a log of no known format."""


def guessed(path: Path, columns: str | None = None) -> tuple[str, dict[str, str]]:
    """Return the format that a log must be of, and the options that its layout needs.

    Parameters
    ----------
    path
        The log.
    columns
        Columns that the user named, ``WHAT=COLUMN,...``: then it is a table.

    Raises
    ------
    InputError
        If it can be none (`UnknownFormat`), or several.
    """
    head = _head(path)
    found: dict[str, dict[str, str]] = {}
    if columns is not None and "=" in columns:
        columns_of(OwnTableReader.split(head.line), columns)
        return OwnTableReader.name, {}
    for name, known in LOG_FORMATS.items():
        try:
            layout = known.layout(head)
        except InputError:  # a first line that is none of that format
            continue
        if layout is not None:
            found[name] = layout
    if not found:
        rule = f"is of no known format{_nearest(head)}; known are {', '.join(LOG_FORMATS)}"
        raise UnknownFormat(rule, file=str(path))
    if len(found) > 1:  # a table of any columns may well be one of known columns
        found.pop(OwnTableReader.name, None)
    if len(found) > 1:
        rule = f"can be {' or '.join(found)}; choose one with {typed('--format')}"
        raise InputError(rule, file=str(path))
    return next(iter(found.items()))


def looks_like(path: Path, unlike: str = "") -> str:
    """Return a hint at the likely format of a refused file; "" if there is none."""
    try:
        name, options = guessed(path)
    except InputError as error:
        return "; it " + error.rule if isinstance(error, UnknownFormat) else ""
    more = "".join(f" --{option} {value}" for option, value in options.items())
    return "" if name == unlike else f"; it looks like a log: {name}:{path.name}{more}"


def is_json(path: Path) -> bool:
    """Return whether a file begins as JSON does."""
    return next(_uncommented(path), "").startswith(("{", "["))


def also(error: InputError, more: str) -> InputError:
    """Return a refusal with more text."""
    return InputError(error.rule + more, file=error.file, line=error.line, field=error.field)


def _nearest(head: Head) -> str:
    """Return a hint: the table format that fits the columns best, and how to read any table."""
    found = []
    for name, known in LOG_FORMATS.items():
        if head.line and issubclass(known, TableReader):
            lacks = set(known.required) - set(known.split(head.line))
            if 2 * len(lacks) < len(known.required):
                found.append((len(lacks) / len(known.required), name, sorted(lacks)))
    _, name, missing = min(found, default=(0.0, "", []))
    near = f" (nearest is {name}, which also has {', '.join(missing)})" if found else ""
    if isinstance(head.entry.get("kind"), str):
        return f" (it has objects of kind {head.entry['kind']!r}; a log has jobs or Workloads)"
    if not head.line:
        return near
    try:
        columns_of(TableReader.split(head.line), None)
    except InputError as error:
        return f"{near}; as a table: {error.rule}"
    return near


@dataclass(frozen=True, slots=True)
class Chosen:
    """Log, its format, and how it is read."""

    path: Path
    reader: type[Reader]
    how: Reading
    guess: bool = False


def chosen(log: str | Path, word: str | None, how: Reading) -> Chosen:
    """Return the log of a path or of ``FORMAT:PATH``, its format guessed if none is named.

    Parameters
    ----------
    log
        Path or spec, with a window or not.
    word
        Name of the format; None where the spec has it, or it is to be guessed.
    how
        Options of how it is read.

    Raises
    ------
    InputError
        If there is no such format, or the file fits none, or several.
    """
    if word is not None:
        return Chosen(Path(log), log_format(word), how)
    spec = None if isinstance(log, Path) or is_file(Path(log)) else LogSpec.of(log)
    if spec is not None:
        return Chosen(Path(spec.path), spec.reader, replace(how, window=spec.window))
    require_format(str(log))
    # A file of the whole name has no window.
    whole = isinstance(log, Path) or is_file(Path(log))
    path, window = (str(log), None) if whole else windowed(str(log))
    word, layout = guessed(Path(path), how.columns)
    more = {name: value for name, value in layout.items() if getattr(how, name) is None}
    if window is not None:
        more["window"] = window
    how = replace(how, **more)  # type: ignore[arg-type]  # names of text options
    return Chosen(Path(path), log_format(word), how, guess=True)


def _head(path: Path) -> Head:
    if path.is_dir():
        return Head(files=frozenset(one.name for one in path.iterdir()))
    line = next(_uncommented(path), "")
    if line[:1] not in ("{", "["):
        return Head(line)
    keys = json_keys(path) if line[0] == "{" else ()
    found: Iterator[tuple[int, str]] = iter(())
    listed = next((key for key in _LISTS if key in keys), None)
    if line[0] == "[" or listed is not None:
        found = json_items(path, listed)
    elif {"apiVersion", "kind"} <= set(keys):  # one object of Kubernetes, or one after the other
        found = json_stream(path)
    _, text = next(found, (0, "{}"))
    entry = parse_json(text, str(path))
    return Head("", frozenset(keys), entry if isinstance(entry, dict) else {})


def _uncommented(path: Path) -> Iterator[str]:
    """Yield the lines that are no comments, stripped."""
    for _, line in table_lines(path):
        if not line.startswith(";"):
            yield line.strip()
