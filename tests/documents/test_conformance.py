"""Every reader against every kind of document that must not be believed."""

from __future__ import annotations

import gzip
import lzma
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from morph_opt.core.domain import InputError
from tests.documents.readers import Reader, all_readers

READERS = tuple(all_readers())
LONG = 100_000
COLUMNS = ",".join(f"c{i}" for i in range(200_000))

HOSTILE = {
    "toml": {
        "nested arrays": "a = " + "[" * LONG,
        "nested and closed": "a = " + "[" * 500 + "]" * 500,
        "nested tables": "a = " + "{a = " * LONG,
        "dotted key": ".".join(["a"] * 50_000) + " = 1",
        "dotted header": "[" + ".".join(["a"] * 50_000) + "]",
        "quoted parts": ".".join(['"a"', "'b'"] * 25_000) + " = 1",
        "inline dotted key": "x = {" + " . ".join(["a"] * 50_000) + " = 1}",
        "digits": "a = " + "9" * 5_000,
        "hexadecimal": "a = 0x" + "f" * 5_000,
        "beyond a double": "a = " + "9" * 400,
        "infinite": "name = inf",
        "not a number": "name = nan",
        "long text": f'name = "{"x" * (LONG + 1)}"',
        "long key": f"{'x' * (LONG + 1)} = 1",
        "key twice": 'name = "a"\nname = "b"',
        "blanks": "[" + " " * LONG + "\n",
        "escape codes": '"\\u001b[31m\\u0007" = 1',
        "date": "name = 1979-05-27",
        "a word": "hello",
    },
    "json": {
        "nested lists": "[" * LONG,
        "nested and closed": "[" * 500 + "]" * 500,
        "nested objects": '{"a":' * LONG,
        "digits": "9" * 5_000,
        "beyond a double": '{"schema": ' + "9" * 400 + "}",
        "overflow": '{"schema": 1e999}',
        "infinite": '{"schema": Infinity}',
        "not a number": '{"schema": NaN}',
        "key twice": '{"a": 1, "a": 2}',
        "long text": '{"schema": "' + "x" * (LONG + 1) + '"}',
        "long key": '{"' + "x" * (LONG + 1) + '": 1}',
        "many values": "[" + "[]," * 3_000_000 + "[]]",
        "escape codes": '{"\\u001b[31m\\u0007\\u202e": 1}',
        "null": "null",
        "number": "1",
        "text": '"x"',
        "list": "[1]",
        "empty list": "[]",
        "list of null": "[null]",
        "empty object": "{}",
        "half": "{",
    },
    "csv": {
        "columns": COLUMNS + "\n",
        "columns twice": ",".join(["name"] * 50_000) + "\n",
        "cell": '"' + "x" * 200_000 + '"\n',
        "open quote": '"name',
        "escape codes": "\x1b[31m\x07,b\n1,2\n",
        "zero bytes": "\0" * 1000,
        "blank lines": "\n" * LONG,
    },
    "lines": {
        "a long line": "x" * LONG,
        "tabs": "\t" * LONG,
        "escape codes": "\x1b[31m\x07\n",
        "zero bytes": "\0" * 1000,
    },
    "log": {
        "nested": "[" * LONG + "\n",
        "digits": '{"event":' + "9" * 5_000 + "}\n",
        "key twice": '{"event":"submit","event":"end"}\n',
        "overflow": '{"event":"submit","time_s":1e999,"job":"a"}\n',
        "kind": '{"event":["submit"]}\n',
        "no object": "[1]\n",
        "text for a number": '{"event":"submit","time_s":"1","job":"a"}\n',
        "escape codes": '{"event":"\\u001b[31m"}\n',
    },
    "rows": {"cell": "x" * 200_000 + "\n", "header": "time_s,time_s\n", "empty": ""},
}
HOSTILE["jsonl"] = {name: text + "\n" for name, text in HOSTILE["json"].items() if text != "null"}
HOSTILE["gz"] = HOSTILE["xz"] = {}
BYTES: dict[str, bytes] = {
    "no UTF-8": b"\xff\xfe\x00a" * 50,
    "half a character": b'name = "\xe2\x82',
    "random": bytes(range(256)) * 20,
    "truncated gzip": gzip.compress(bytes(1000))[:-9],
    "corrupt gzip": gzip.compress(os.urandom(1000))[:300] + b"\xff" * 600,
    "truncated xz": lzma.compress(bytes(1000))[:-9],
    "corrupt xz": lzma.compress(os.urandom(1000))[:300] + b"\xff" * 600,
    "xz with a tail": lzma.compress(b"{}") + b"tail",
}
KEPT_AS_TEXT = ("events.jsonl.partial", "rounds.csv.partial")
"""A torn tail is cut off there, whatever it is."""


def documents(reader: Reader) -> Iterator[tuple[str, bytes]]:
    for name, text in HOSTILE[reader.format].items():
        yield name, text.encode()
    if reader.format == "gz":
        yield from ((name, gzip.compress(text.encode())) for name, text in HOSTILE["json"].items())
    if reader.format == "xz":
        yield from ((name, lzma.compress(text.encode())) for name, text in HOSTILE["json"].items())
    if reader.name not in KEPT_AS_TEXT:
        yield from BYTES.items()


def refused(reader: Reader, path: Path, what: str) -> None:
    """One line that names the file or its folder, without anything that a terminal obeys."""
    try:
        reader.read(path)
    except InputError as error:
        said = str(error)
    else:
        pytest.fail(f"{reader} took: {what}")
    assert said.isprintable(), (what, said)
    assert len(said) < 900, (what, len(said))


def place(reader: Reader, tmp_path: Path) -> Path:
    path = tmp_path / reader.name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.mark.parametrize("reader", READERS, ids=str)
def test_hostile_documents_are_one_line(reader: Reader, tmp_path: Path) -> None:
    path = place(reader, tmp_path)
    for what, content in documents(reader):
        path.write_bytes(content)
        refused(reader, path, what)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def endless(path: Path) -> None:
    """A terabyte that takes no room."""
    path.touch()
    os.truncate(path, 1 << 40)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "folder": lambda path: path.mkdir(),
    "FIFO": os.mkfifo,
    "device": a_device,
    "socket": a_socket,
    "link to itself": lambda path: path.symlink_to(path),
    "endless": endless,
}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("reader", READERS, ids=str)
def test_devices_and_folders_are_not_opened(reader: Reader, kind: str, tmp_path: Path) -> None:
    path = place(reader, tmp_path)
    SPECIAL[kind](path)
    refused(reader, path, kind)
