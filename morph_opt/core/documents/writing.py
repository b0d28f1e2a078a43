"""Atomic writing of files, which never follows a symbolic link."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tomli_w

from morph_opt.core.documents.source import not_a_file
from morph_opt.core.domain.errors import InputError

_UNFINISHED = re.compile(r"\.[0-9a-f]{24}\.tmp")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_atomically(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write a file under a random new name, then rename it.

    A symbolic link that has the name is replaced and not followed.

    Parameters
    ----------
    path
        The file; one that is there is replaced.
    content
        Text (UTF-8) or bytes.
    durable
        Whether to wait until it is on the disk.

    Raises
    ------
    InputError
        If the name belongs to a device, FIFO, socket or folder, or the file cannot be written;
        no file is left then.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        require_no_special(path)
        temporary = path.with_name(f".{secrets.token_hex(12)}.tmp")
        descriptor = os.open(temporary, _NEW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), 0o666 & ~_umask())
                if durable:
                    os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        rule = f"cannot be written ({error.strerror or error})"
        raise InputError(rule, file=str(path)) from error
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be written ({error})", file=str(path)) from None


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished files of a process that was killed in `write_atomically`.

    Nobody else may be writing to the folder.

    Raises
    ------
    OSError
        If something cannot be removed.
    """
    for path in folder.iterdir():
        if _UNFINISHED.fullmatch(path.name):
            path.unlink()


def require_no_special(path: Path) -> None:
    """Refuse to write to a device, FIFO, socket or folder.

    Raises
    ------
    InputError
        Naming its kind.
    """
    try:
        other = not_a_file(os.stat(path).st_mode)
    except FileNotFoundError:
        return
    if other is not None:
        raise InputError(f"cannot be written (it is {other})", file=str(path))


def require_no_input(out: Path | None, *inputs: Path) -> None:
    """Refuse to write over an input: a report may not replace its log.

    Raises
    ------
    InputError
        If the file to write is one of the inputs.
    """
    for path in () if out is None else inputs:
        with suppress(OSError):  # one of them is not there
            if out is not None and not out.samefile(path):
                continue
            rule = "is an input: name another file to write"
            raise InputError(rule, file=str(out))


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return TOML text that `parse_toml` reads back to the same tables."""
    return tomli_w.dumps(tables)


def _umask() -> int:
    """Return the process's file mask, by setting and restoring it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
