"""Reading of plain files of limited size; anything else raises `InputError`.

``docs/limits.md`` lists the limits. Files of the package itself are trusted and have none.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import sys
import tomllib
import zlib
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from morph_opt.core.domain.errors import InputError

LIMIT_VARIABLE = "MORPH_OPT_MAX_FILE_MIB"
"""Environment variable, a whole number of MiB, that raises every smaller size limit to it."""

MIB = 1 << 20
TOML_BYTES = 8 * MIB
"""Largest TOML text: it is parsed in Python, about a second per megabyte."""
JSON_BYTES = 64 * MIB
"""Largest JSON document, unpacked."""
LINES_BYTES = 256 * MIB
"""Largest file read line by line, unpacked: CSV, JSON lines, traces, MPS, solutions."""

BYTES_PER_VALUE = 16
"""Divisor of a JSON document's size limit that gives its largest number of values."""

DEPTH = 64
"""Largest number of nested levels of a JSON or TOML document."""
KEY_PARTS = 32
"""Largest number of parts of a dotted TOML key; the parser's time grows with its square."""
TEXT_CHARACTERS = 100_000
"""Largest number of characters of a string in a JSON or TOML document."""
LINE_CHARACTERS = 4_000_000
"""Largest number of characters of a line of a log."""
COLUMNS = 1_000
"""Largest number of columns of a CSV header."""
XZ_MEMORY_BYTES = 256 * MIB
"""Largest memory for unpacking an ``.xz`` file (``xz -9`` takes 65 MiB)."""

_CHUNK = 1 << 18
_PACKED = (".gz", ".xz")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a symbolic link"),
)


def raised(limit_bytes: int) -> int:
    """Return the larger of a limit and `LIMIT_VARIABLE`.

    Raises
    ------
    InputError
        If the variable is set and is no whole number of at least 1.
    """
    text = os.environ.get(LIMIT_VARIABLE, "")
    if not text:
        return limit_bytes
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= 1):
        raise InputError(f"must be a whole number of MiB, got {text!r}", field=LIMIT_VARIABLE)
    return max(limit_bytes, int(text) * MIB)


def not_a_file(mode: int) -> str | None:
    """Return what a path is if it is no plain file (``"a device"``), else None."""
    if stat.S_ISREG(mode):
        return None
    return next((name for test, name in _KINDS if test(mode)), "something else")


def is_file(path: Path | str) -> bool:
    """Return whether a path is a plain file; False for impossible names."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def exists(path: Path | str) -> bool:
    """Return whether a path exists, dangling links included; False for impossible names."""
    try:
        os.lstat(path)
    except (OSError, ValueError):
        return False
    return True


def read_bytes(path: Path | str, most_bytes: int, *, unpack: bool = True) -> bytes:
    """Read the content of a file, unpacked if its name ends in ``.gz`` or ``.xz``.

    Parameters
    ----------
    path
        A plain file, or a symbolic link to one.
    most_bytes
        Limit of the unpacked content; `raised` by the environment.
    unpack
        Whether to unpack it; False returns the file's own bytes.

    Raises
    ------
    InputError
        If there is no such file, it is a device, FIFO, socket or folder, cannot be read, is
        damaged, or is larger than the limit. No more than the limit is ever held.
    """
    file, most = str(path), raised(most_bytes)
    with _refused_in_one_line(file), _opened(path) as raw:
        packed = unpack and file.endswith(_PACKED)
        if not packed:
            _require_size(os.fstat(raw.fileno()).st_size, most, file)
        return b"".join(_bounded(_chunks(raw, file if packed else ""), most, file))


def stream_text(path: Path | str, most_bytes: int) -> Iterator[str]:
    """Yield the UTF-8 text of a file in pieces, with the limits and errors of `read_text`."""
    file, most = str(path), raised(most_bytes)
    with _refused_in_one_line(file), _opened(path) as raw:
        if not file.endswith(_PACKED):
            _require_size(os.fstat(raw.fileno()).st_size, most, file)
        yield from _decoded(_bounded(_chunks(raw, file), most, file), file)


def stream_lines(path: Path | str, most_bytes: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file with their numbers from 1, in constant memory.

    Raises
    ------
    InputError
        As `stream_text`; also if a line has more than `LINE_CHARACTERS` characters.
    """
    number, rest = 1, ""
    for piece in stream_text(path, most_bytes):
        *whole, rest = (rest + piece).split("\n")
        for line in whole:
            if len(line) > LINE_CHARACTERS:
                raise _too_long(path, number)
            yield number, line[:-1] if line.endswith("\r") else line
            number += 1
        if len(rest) > LINE_CHARACTERS:
            raise _too_long(path, number)
    if rest:
        yield number, rest[:-1] if rest.endswith("\r") else rest


def _too_long(path: Path | str, number: int) -> InputError:
    rule = f"must have at most {LINE_CHARACTERS} characters"
    return InputError(rule, file=str(path), line=number)


def _decoded(chunks: Iterable[bytes], file: str) -> Iterator[str]:
    """Yield the text of UTF-8 bytes without a byte-order mark.

    Raises
    ------
    InputError
        If they are not UTF-8; names the first byte that is not.
    """
    decoder, before = getincrementaldecoder("utf-8-sig")(), 0
    for chunk in chain(filter(None, chunks), (b"",)):  # an archive may yield empty ones
        try:
            yield decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            # The decoder puts bytes that it kept before the chunk, and drops a byte-order mark.
            at = before + error.start + len(chunk) - len(error.object)
            rule = f"must be UTF-8 text, byte {at} is not; save the file as UTF-8"
            raise InputError(rule, file=file) from None
        before += len(chunk)


@contextmanager
def _refused_in_one_line(file: str) -> Iterator[None]:
    """Turn errors of reading a file into `InputError`."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as error:
        raise InputError(f"is damaged ({error})", file=file) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=file) from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read ({error})", file=file) from None


def read_text(path: Path | str, most_bytes: int) -> str:
    """Read the UTF-8 text of a file, without a byte-order mark; line breaks as they are."""
    return "".join(stream_text(path, most_bytes))


def read_stdin(most_bytes: int) -> str:
    """Read the UTF-8 text of the standard input, up to a limit."""
    if sys.stdin is None:
        raise InputError("is closed", file="stdin")
    chunks = iter(lambda: sys.stdin.buffer.read(_CHUNK), b"")
    with _refused_in_one_line("stdin"):
        return "".join(_decoded(_bounded(chunks, raised(most_bytes), "stdin"), "stdin"))


def _opened(path: Path | str) -> BinaryIO:
    """Open a plain file; check its kind before opening, which can have effects, and after."""
    _require_plain(os.stat(path).st_mode, str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_plain(os.fstat(descriptor).st_mode, str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_plain(mode: int, file: str) -> None:
    other = not_a_file(mode)
    if other is not None:
        raise InputError(f"must be a file, it is {other}", file=file)


def _chunks(raw: BinaryIO, file: str) -> Iterator[bytes]:
    if file.endswith(".xz"):
        yield from _unpacked_xz(raw)
        return
    stream = gzip.GzipFile(fileobj=raw) if file.endswith(".gz") else raw
    while chunk := stream.read(_CHUNK):
        yield chunk


def _unpacked_xz(raw: BinaryIO) -> Iterator[bytes]:
    engine = lzma.LZMADecompressor(memlimit=raised(XZ_MEMORY_BYTES))
    while not engine.eof:
        packed = raw.read(_CHUNK) if engine.needs_input else b""
        if engine.needs_input and not packed:
            raise EOFError("it ends too early")
        yield engine.decompress(packed, _CHUNK)
    if engine.unused_data or raw.read(1):
        raise lzma.LZMAError("data after its end")


def _bounded(chunks: Iterable[bytes], most: int, file: str) -> Iterator[bytes]:
    """Yield the chunks until they exceed a limit together."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        _require_size(size, most, file)
        yield chunk


def _require_size(size: int, most: int, file: str) -> None:
    if size > most:
        rule = f"must be at most {most // MIB} MiB (unpacked); {LIMIT_VARIABLE} raises that"
        raise InputError(rule, file=file)


# ---------------------------------------------------------------- files of the package


def packaged_text(package: str, *path: str) -> str:
    """Return the UTF-8 text of a file in an installed package.

    Raises
    ------
    FileNotFoundError
        If the package has no such file: the installation is not whole.
    """
    return resources.files(package).joinpath(*path).read_text("utf-8")


def packaged_toml(package: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file in a package.

    Raises
    ------
    FileNotFoundError
        As `packaged_text`.
    """
    return tomllib.loads(packaged_text(package, name))
