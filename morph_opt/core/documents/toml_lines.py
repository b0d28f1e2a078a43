"""Lines of keys in a TOML text, for errors."""

from __future__ import annotations

import re

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"\s*(\"[^\"]*\"|'[^']*'|[A-Za-z0-9_.-]+)\s*=")

_LONGEST = 1_000
"""Longest line that is looked at: the patterns take time with the square of its length."""


def key_lines(text: str) -> dict[str, int]:
    """Return the line of every header and key.

    Returns
    -------
    dict
        ``"node_type.a"`` and ``"node_type.a.gpus"`` for tables, ``"nodes[0]"`` and
        ``"nodes[0].count"`` for arrays of tables, to line numbers from 1. Good for the layout
        that specs are written in; a key that it does not see has no line.
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
