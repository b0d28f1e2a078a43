"""How large a document may be; ``docs/limits.md`` lists these limits."""

from __future__ import annotations

import os

from morph_opt.domain.errors import InputError

LIMIT_VARIABLE = "MORPH_OPT_MAX_FILE_MIB"
"""Environment variable: a whole number of MiB; raises every limit of size that is below it."""

MIB = 1 << 20
TOML_BYTES = 8 * MIB
"""Of a TOML text: it is parsed in Python, a megabyte takes about a second."""
JSON_BYTES = 64 * MIB
"""Of a JSON document, unpacked."""
LINES_BYTES = 256 * MIB
"""Of everything that is read line by line, unpacked: CSV, JSON lines, traces, MPS, solutions."""

BYTES_PER_VALUE = 16
"""A JSON document may hold a value per so many bytes of its limit: ``[[],[],`` takes 3 bytes of
text and 64 of memory."""

DEPTH = 64
"""Levels of nesting of a JSON or TOML document."""
KEY_PARTS = 32
"""Parts of a dotted TOML key; the parser needs the square of their number."""
TEXT_CHARACTERS = 100_000
"""Of one string of a JSON or TOML document."""
LINE_CHARACTERS = 4_000_000
"""Of one line of a log that is read line by line and never held whole."""
COLUMNS = 1_000
"""Of a CSV header."""
XZ_MEMORY_BYTES = 256 * MIB
"""What an ``.xz`` file may ask for while it is unpacked (``xz -9`` takes 65 MiB)."""


def raised(limit_bytes: int) -> int:
    """The limit, or what `LIMIT_VARIABLE` says if that is more.

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
