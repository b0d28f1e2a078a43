"""Mutations of documents: damage, odd values and odd structure, drawn from a random generator.

Every function takes a `random.Random`; the campaign seeds one per file, Hypothesis hands in one
that it can shrink.
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
from collections.abc import Callable
from random import Random
from typing import Any

WORDS = (
    "",
    " ",
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "7",
    "0.5",
    "1e-300",
    "1e300",
    "1e308",
    "-1e308",
    "1e-9",
    "1e9",
    "1e400",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "Infinity",
    "null",
    "true",
    "False",
    "0x10",
    "1_000",
    "1,5",
    "+3",
    "  4 ",
    "007",
    "9" * 25,
    "9" * 5000,
    "1" + "0" * 400,
    "٣",
    "½",
    "é",
    "\u202e",
    "\x00",
    "\x1b[31m",
    "\\",
    '"',
    "'",
    "#",
    "=",
    "[",
    "]",
    "{",
    "}",
    ";",
    "\t",
    "a" * 3000,
    "x:y",
    "../x",
    "/dev/zero",
    "1+1",
    "+".join("1" * 900),
    "dp",
    "2147483648",
    "9223372036854775808",
    "-1.5",
    "1e16",
    "4.0000000001",
    "\ud7ff",
    "*",
    "os:getcwd",
    ".x:y",
)
"""Texts that readers stumble over; put in place of a word, a cell or a value."""

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    0.5,
    -0.0,
    1e-300,
    1e300,
    -1e308,
    10**25,
    10**400,
    1e-9,
    1e9,
    "",
    "a",
    "1",
    "nan",
    "\x00",
    "\x1b[2J",
    "é" * 50,
    "x" * 3000,
    [],
    {},
    [[]],
    [None],
    {"": 0},
    [1, 2],
    float("nan"),
    float("inf"),
)
"""Values in place of one of a JSON document."""

_WORD = re.compile(rb"[A-Za-z0-9_.+\-]+")
_KEY = re.compile(rb'^("?[\w.-]+"?\s*=|\[.*\])', re.MULTILINE)
LINES_AT_ONCE = 3000
DEEP = 100_000


def mutated(draw: Random, data: bytes, kind: str, *, bombs: bool = True) -> bytes:
    """One to three mutations of a document.

    Parameters
    ----------
    draw
        Where chance comes from.
    data
        A good document.
    kind
        ``"json"``, ``"toml"``, ``"csv"``, ``"tsv"`` or ``"lines"``, with ``".gz"`` or ``".xz"``
        behind it if it is packed.
    bombs
        Whether a packed one may become one of some hundred kB that unpacks to gigabytes.
    """
    inner, _, packing = kind.partition(".")
    if packing:
        return _packed(draw, data, inner, packing, bombs)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice((*_ANY, *_OF_KIND[inner] * 2))(draw, data)
    return data


def _packed(draw: Random, data: bytes, inner: str, packing: str, bombs: bool) -> bytes:
    pack: Callable[[bytes], bytes]
    pack, unpack = {
        "gz": (gzip.compress, gzip.decompress),
        "xz": (lambda raw: lzma.compress(raw, preset=0), lzma.decompress),
    }[packing]
    way = draw.random()
    if way < 0.75:
        return pack(mutated(draw, unpack(data), inner))
    if way < 0.995 or not bombs:
        return draw.choice((_bits, _cut, _gap, _again, _inserted))(draw, data)
    return pack(b"0" * 2**24) * 160


# ------------------------------------------------------------------ any bytes


def _place(draw: Random, data: bytes) -> int:
    return draw.randint(0, max(len(data) - 1, 0))


def _bits(draw: Random, data: bytes) -> bytes:
    """Some bits flipped."""
    changed = bytearray(data or b" ")
    for _ in range(draw.choice((1, 1, 2, 8))):
        changed[_place(draw, changed)] ^= 1 << draw.randint(0, 7)
    return bytes(changed)


def _cut(draw: Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: _place(draw, data)]


def _gap(draw: Random, data: bytes) -> bytes:
    """A piece is missing."""
    start = _place(draw, data)
    return data[:start] + data[start + draw.randint(1, 40) :]


def _again(draw: Random, data: bytes) -> bytes:
    """A piece stands twice."""
    start = _place(draw, data)
    return data[:start] + data[start : start + draw.randint(1, 200)] * 2 + data[start:]


def _inserted(draw: Random, data: bytes) -> bytes:
    """Something stands where nothing should."""
    start = _place(draw, data)
    return data[:start] + draw.choice(WORDS).encode() + data[start:]


def _word(draw: Random, data: bytes) -> bytes:
    """A word or number is another one."""
    found = list(_WORD.finditer(data[:50_000]))
    if not found:
        return _inserted(draw, data)
    match = draw.choice(found)
    return data[: match.start()] + draw.choice(WORDS).encode() + data[match.end() :]


def _encoding(draw: Random, data: bytes) -> bytes:
    """Another encoding, mark or line break."""
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: data.replace(b"\n", b"\r"),
        lambda: data.decode("utf-8", "replace").encode("utf-16"),
        lambda: data + b"\xff\xfe",
        lambda: b"\n\n" + data,
        lambda: data.rstrip(b"\n"),
        lambda: data + b"\x00" * 10,
        lambda: b"",
    )
    return draw.choice(ways)()


def _lines(draw: Random, data: bytes) -> bytes:
    """Lines swapped, dropped, doubled or many times repeated."""
    lines = data.split(b"\n")
    one, two = (_place(draw, lines) for _ in range(2))  # type: ignore[arg-type]
    way = draw.randint(0, 4)
    if way == 0:
        lines[one], lines[two] = lines[two], lines[one]
    elif way == 1:
        del lines[one]
    elif way == 2:
        lines.insert(two, lines[one])
    elif way == 3:
        lines.insert(one, b"")
    else:
        lines[one:one] = [lines[one]] * draw.choice((2, 10, LINES_AT_ONCE))
    return b"\n".join(lines)


_ANY = (_bits, _cut, _gap, _again, _inserted, _word, _word, _encoding, _lines)


# ------------------------------------------------------------------ cells


def _cells(separator: bytes) -> Callable[[Random, bytes], bytes]:
    def change(draw: Random, data: bytes) -> bytes:
        """A cell replaced, a row's cell added or dropped, a column dropped, doubled or renamed."""
        rows = [line.split(separator) for line in data.split(b"\n")]
        row = draw.choice(rows)
        place = _place(draw, row)  # type: ignore[arg-type]
        way = draw.randint(0, 6)
        word = draw.choice(WORDS).encode()
        if way <= 2:
            row[place] = word
        elif way == 3:
            row.insert(place, word)
        elif way == 4:
            del row[place]
        elif way == 5:
            for other in rows:
                del other[place : place + 1]
        else:
            for other in rows:
                other[place:place] = other[place : place + 1]
        return b"\n".join(separator.join(cells) for cells in rows)

    return change


def _wide(draw: Random, data: bytes) -> bytes:
    """A header of very many columns, or a cell of very many characters."""
    head, _, rest = data.partition(b"\n")
    if draw.random() < 0.5:
        more = b"".join(b",c%d" % n for n in range(draw.choice((50, 5000, 200_000))))
        return head + more + b"\n" + rest
    return head + b"\n" + b'"' + b"x" * draw.choice((1000, 140_000, 2_000_000)) + b'"' + rest


# ------------------------------------------------------------------ JSON


def _values(draw: Random, data: bytes) -> bytes:
    """A value of a JSON document replaced, dropped, doubled or moved."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _word(draw, data)
    if not isinstance(document, dict | list):
        return _word(draw, data)
    places = _places_in(document)
    if not places:
        return _word(draw, data)
    holder, key = draw.choice(places)
    way = draw.randint(0, 9)
    if way <= 4:
        holder[key] = draw.choice(VALUES)
    elif way == 5:
        del holder[key]
    elif way == 6:
        other, name = draw.choice(places)
        if name in other if isinstance(other, dict) else name < len(other):
            holder[key] = json.loads(json.dumps(other[name], default=str))
    elif way == 7 and isinstance(holder, list):
        holder[key:key] = [holder[key]] * draw.choice((1, 3, 300))
    elif way == 7:
        holder[draw.choice(WORDS)[:4000]] = holder[key]
    elif way == 8:
        holder[key] = [holder[key]]
    else:
        holder[key] = {"x": holder[key]}
    return _dumped(document)


def _places_in(document: Any) -> list[tuple[Any, Any]]:
    """Every object or list with each of its keys or indices."""
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        here = waiting.pop()
        for key, value in list(here.items() if isinstance(here, dict) else enumerate(here)):
            places.append((here, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    return places


def _dumped(document: object) -> bytes:
    # 10**400 and the like: Python writes integers of up to 4,300 digits.
    return json.dumps(document).encode()


def _twice(draw: Random, data: bytes) -> bytes:
    """A key of an object stands twice."""
    keys = list(re.finditer(rb'"\w+"\s*:', data))
    if not keys:
        return _inserted(draw, data)
    match = draw.choice(keys)
    return data[: match.start()] + match[0] + b" 1, " + data[match.start() :]


def _deep(draw: Random, data: bytes) -> bytes:
    """Nested deeper than any reader can follow, in place of a value."""
    depth = draw.choice((50, 500, DEEP))
    opened, closed = draw.choice(((b"[", b"]"), (b'{"a":', b"}")))
    nest = opened * depth + b"1" + closed * depth
    values = list(re.finditer(rb":\s*", data))
    at = draw.choice(values).end() if values else 0
    return data[:at] + nest + b"," + data[at:] if draw.random() < 0.5 else nest


# ------------------------------------------------------------------ TOML


def _toml(draw: Random, data: bytes) -> bytes:
    """A key, a table or a value of another kind."""
    keys = list(_KEY.finditer(data))
    if not keys:
        return _word(draw, data)
    match = draw.choice(keys)
    line_end = data.find(b"\n", match.end())
    line_end = len(data) if line_end < 0 else line_end
    value = draw.choice(
        (
            b"[]", b"{}", b"true", b"-1", b"1e300", b"nan", b"inf", b'""', b'"x"', b"1000000000",
            b"1979-05-27", b"[" * 3000 + b"]" * 3000, b"1" * 5000, b"[1, 'a']", b"{a = 1}",
            b'"""' + b"y\n" * 50 + b'"""', b"0xff", b"1e-300",
        )
    )  # fmt: skip
    name = draw.choice(
        (b"surprise", b"a." * 50_000 + b"b", b'""', b"'\\'", b"a.b", match[0].rstrip(b" =[]"))
    )
    way = draw.randint(0, 4)
    if way <= 2 and match[0].endswith(b"="):
        return data[: match.end()] + b" " + value + data[line_end:]
    if way == 3:
        return data[: match.start()] + name + b" = " + value + b"\n" + data[match.start() :]
    return data[: match.start()] + data[line_end + 1 :]


_OF_KIND: dict[str, tuple[Callable[[Random, bytes], bytes], ...]] = {
    "json": (_values, _values, _values, _twice, _deep),
    "toml": (_toml, _toml, _word),
    "csv": (_cells(b","), _cells(b","), _cells(b","), _wide),
    "tsv": (_cells(b"\t"), _cells(b"\t"), _wide),
    "lines": (_cells(b" "), _lines, _word),
}
