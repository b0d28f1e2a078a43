"""Limits on the size of documents; ``docs/limits.md`` lists them."""

from __future__ import annotations

import os

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
