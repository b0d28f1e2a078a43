"""Digests of files, and extraction of named members from archives."""

from __future__ import annotations

import hashlib
import os
import secrets
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from morph_opt.core.domain import InputError

MEMBER_BYTES = 4 << 30
"""Largest size of an extracted member."""
_CHUNK = 1 << 20
_Read = Callable[[str], IO[bytes]]
_RECORD = ".unpacked.sha256"
"""File below a root with the SHA-256 of extracted members, as ``sha256sum`` writes it."""


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def blob_id(file: Path) -> str:
    """Return git's id of a file's content: SHA-1 of ``blob <bytes>``, a zero byte, content."""
    digest = hashlib.sha1(b"blob %d\0" % file.stat().st_size, usedforsecurity=False)
    with file.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def is_unpacked(root: Path, members: Mapping[str, str]) -> bool:
    """Return whether all extracted members are unchanged; False if there are none."""
    record = root / _RECORD
    if not members or not record.is_file():
        return False
    known = dict(line.split(maxsplit=1)[::-1] for line in record.read_text("utf-8").splitlines())
    return all(
        (root / path).is_file() and sha256_of(root / path) == known.get(path) for path in members
    )


def unpack(archive: Path, root: Path, members: Mapping[str, str]) -> None:
    """Extract named members from a zip or tar file.

    Parameters
    ----------
    archive
        The file; its checksum has been verified.
    root
        Folder below which the members are written.
    members
        Path of each, and how its name in the archive ends.

    Raises
    ------
    InputError
        If a member is not there once, is no plain file or is too large, or the archive is damaged.
    """
    digests = {}
    try:
        with _opened(archive) as (names, read):
            for path, ending in members.items():
                found = [name for name in names if f"/{name}".endswith(f"/{ending}")]
                if len(found) != 1:
                    rule = f"must have one member that ends in {ending}, it has {len(found)}"
                    raise InputError(rule, file=str(archive))
                with read(found[0]) as content:
                    digests[path] = _written(content, root / path, archive)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"is damaged ({error})", file=str(archive)) from None
    lines = [f"{digest}  {path}\n" for path, digest in digests.items()]
    (root / _RECORD).write_text("".join(lines), encoding="utf-8")


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[list[str], _Read]]:
    """Yield names of plain files in an archive, and a function that opens one."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            names = [one.filename for one in packed.infolist() if not one.is_dir()]
            yield names, packed.open
        return
    with tarfile.open(archive) as tar:
        plain = {one.name: one for one in tar if one.isreg()}

        def read(name: str) -> IO[bytes]:
            content = tar.extractfile(plain[name])
            assert content is not None
            return content

        yield list(plain), read


def _written(content: IO[bytes], path: Path, archive: Path) -> str:
    """Write a member under a temporary name, then rename it; return its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{secrets.token_hex(12)}.tmp")
    digest, size = hashlib.sha256(), 0
    try:
        with temporary.open("xb") as file:
            while chunk := content.read(_CHUNK):
                size += len(chunk)
                if size > MEMBER_BYTES:
                    rule = f"must have members of at most {MEMBER_BYTES >> 30} GiB"
                    raise InputError(rule, file=str(archive))
                digest.update(chunk)
                file.write(chunk)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()
    return digest.hexdigest()
