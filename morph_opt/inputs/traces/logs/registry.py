"""Log formats by name: built-in readers, and a user's own."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents import exists
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import nearest, unknown
from morph_opt.core.extend import extension
from morph_opt.inputs.traces.logs.formats.acme import AcmeReader, HeliosReader
from morph_opt.inputs.traces.logs.formats.batsim import BatsimReader
from morph_opt.inputs.traces.logs.formats.kueue import KueueReader
from morph_opt.inputs.traces.logs.formats.openb import OpenbReader, SpotReader
from morph_opt.inputs.traces.logs.formats.pai import PaiReader
from morph_opt.inputs.traces.logs.formats.philly import PhillyReader, PhillyTableReader
from morph_opt.inputs.traces.logs.formats.pollux import EasyscaleReader, PolluxReader
from morph_opt.inputs.traces.logs.formats.sacct import SacctReader
from morph_opt.inputs.traces.logs.formats.swf import SwfReader
from morph_opt.inputs.traces.logs.formats.table import OwnTableReader
from morph_opt.inputs.traces.logs.formats.volcano import VolcanoReader
from morph_opt.inputs.traces.logs.reading.reader import Reader

ENTRY_POINT_GROUP = "morph_opt.traces"
"""Group of entry points that are trace sources or log formats, under their own name."""

LOG_FORMATS: dict[str, type[Reader]] = {
    one.name: one
    for one in (
        AcmeReader,
        HeliosReader,
        PhillyReader,
        PhillyTableReader,
        PaiReader,
        OpenbReader,
        SpotReader,
        PolluxReader,
        EasyscaleReader,
        SwfReader,
        SacctReader,
        KueueReader,
        VolcanoReader,
        BatsimReader,
        OwnTableReader,
    )
}
"""Built-in formats; `morph_opt.inputs.traces.registry.FORMATS` lists them among all traces."""

_LONGEST = 200

_OWN_PATH = re.compile(r"([^\W\d][\w.]*:[^\W\d]\w*):.+", re.DOTALL)
"""Pattern of ``package.module:Reader:PATH``."""


def log_format(name: str) -> type[Reader]:
    """Return a log format by name: built-in, an entry point or an import path.

    Raises
    ------
    InputError
        If there is none, or one's own lacks a method.
    """
    found = LOG_FORMATS.get(name) or _own(name)
    if found is None:
        what = "format" if ":" not in name else "log format (a class derived from Reader)"
        raise InputError(unknown(what, name, LOG_FORMATS), field="format")
    return found


def format_name(spec: str) -> str | None:
    """Return the format's name in ``FORMAT:PATH``; None if there is none.

    >>> [format_name(spec) for spec in ("sacct:x.txt", "mine:Site:x.csv", "mine:burst/3")]
    ['sacct', 'mine:Site', None]
    """
    head, colon, rest = spec.partition(":")
    if not colon or not rest:
        return None
    own = None if head in LOG_FORMATS else _OWN_PATH.fullmatch(spec)
    if own is not None:
        return own[1]
    return head if head in LOG_FORMATS or _own(head) is not None else None


def require_format(spec: str, field: str | None = None) -> None:
    """Refuse a format without a file, or with a misspelt name.

    Raises
    ------
    InputError
        Naming the format that is near.
    """
    word, colon, path = spec.partition(":")
    if colon and not path and word in LOG_FORMATS:
        raise InputError(f"{spec} names no file: give {word}:PATH", field=field)
    near = colon and word not in LOG_FORMATS and nearest(word, LOG_FORMATS) is not None
    if near and not exists(Path(spec)):
        raise InputError(unknown("format", word, LOG_FORMATS), field=field)


@dataclass(frozen=True, slots=True)
class LogSpec:
    """Parts of ``FORMAT:PATH``, perhaps with a window ``@from..to``.

    Parameters
    ----------
    name
        Name of the format, or its import path.
    path, window
        The parts; no window is None.
    """

    name: str
    path: str
    window: str | None = None

    @classmethod
    def of(cls, spec: str) -> LogSpec | None:
        """Return the parts of a spec; None if it does not begin with a format."""
        name = format_name(spec)
        return None if name is None else cls(name, *windowed(spec[len(name) + 1 :]))

    @property
    def reader(self) -> type[Reader]:
        """Format of the log; raises as `morph_opt.inputs.traces.logs.registry.log_format`."""
        return log_format(self.name)

    def __str__(self) -> str:
        return f"{self.name}:{self.path}" + ("" if self.window is None else f"@{self.window}")


def windowed(text: str) -> tuple[str, str | None]:
    """Split a text into the part before a window ``@from..to``, and the window."""
    before, at, window = text.rpartition("@")
    return (before, window) if at and ".." in window and "/" not in window else (text, None)


def _own(name: str) -> type[Reader] | None:
    """Return a user's own format; None if the name is of no format."""
    if len(name) > _LONGEST:
        return None
    found = extension(ENTRY_POINT_GROUP, name)
    if not (inspect.isclass(found) and issubclass(found, Reader)):
        return None
    if found.__abstractmethods__:
        missing = " and no ".join(sorted(found.__abstractmethods__))
        raise InputError(f"{name!r} is no log format: it has no {missing}", field="format")
    return found
