"""A user's own objective, solver, policy or trace reader: by import path or entry point."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import formulations  # noqa: F401 - found now, also where it lies in the current folder
from morph_opt.domain.errors import InputError

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""``package.module:attribute``."""
_LONGEST = 200

_file: ContextVar[tuple[str, bool] | None] = ContextVar("file", default=None)
"""File that names come from, and whether it may name code."""


@contextmanager
def named_by_file(file: str, *, allow_code: bool) -> Iterator[None]:
    """Within it, names of extensions come from a file, which is data and may be anybody's.

    Import paths are then refused unless the user allows them, and nothing is looked for in the
    current folder: neither modules nor packages that announce entry points.

    Parameters
    ----------
    file
        Shown in the refusal.
    allow_code
        The user's explicit word on the command line.
    """
    token = _file.set((file, allow_code))
    try:
        yield
    finally:
        _file.reset(token)


@contextmanager
def _trusted_path() -> Iterator[None]:
    """The module search path without the current folder, while a file's names are looked up."""
    kept = list(sys.path)
    if _file.get() is not None:
        # Python puts it first for `python -m`; where PYTHONPATH names it too, the user meant it.
        first = kept[:1] if kept[:1] != [str(Path.cwd())] else []
        sys.path[:] = [entry for entry in (*first, *kept[1:]) if entry]
    try:
        yield
    finally:
        sys.path[:] = kept


def extension(group: str, name: str) -> Any | None:
    """The object called ``name``, or None if there is none.

    Parameters
    ----------
    group
        Entry point group, for example ``"morph_opt.objectives"``.
    name
        Name of an entry point in that group, or ``package.module:attribute``.

    Raises
    ------
    InputError
        If an import path is given and cannot be imported, or comes from a file (`named_by_file`)
        and was not allowed.
    """
    with _trusted_path():
        return _found(group, name)


def _found(group: str, name: str) -> Any | None:
    for point in entry_points(group=group):
        if point.name == name:
            return point.load()
    if ":" not in name:
        return None
    if not _PATH.fullmatch(name) or len(name) > _LONGEST:
        raise InputError(f"cannot import {name!r}: must look like package.module:attribute")
    file, allowed = _file.get() or (None, True)
    if not allowed:
        rule = f"names code to run, {name!r}; --allow-code runs it, if you trust it"
        raise InputError(rule, file=file)
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, SyntaxError) as error:
        raise InputError(f"cannot import {name!r}: {error}") from error


def made_by(own: Any, name: str, field: str, contract: str, *args: Any, **kwargs: Any) -> Any:
    """What a user's own callable makes of these arguments.

    Parameters
    ----------
    own, name
        What `extension` found, and its name.
    field
        Option that the user gave, shown in complaints.
    contract
        What it must be, for example ``"policy(belief, options)"``.

    Raises
    ------
    InputError
        If it cannot be called so. An error inside it stays what it is.
    """
    if not callable(own):
        raise InputError(f"{name!r} must be callable: a class or a function", field=field)
    rule = f"{name!r} must be callable as {contract}"
    try:
        signature = inspect.signature(own)
    except ValueError:  # some built-in functions do not tell
        signature = None
    try:
        if signature is not None:
            signature.bind(*args, **kwargs)
    except TypeError as error:
        raise InputError(f"{rule}: {error}", field=field) from error
    try:
        return own(*args, **kwargs)
    except TypeError as error:
        if signature is not None:
            raise
        raise InputError(f"{rule}: {error}", field=field) from error


def require_parts(made: Any, name: str, field: str, what: str, parts: tuple[str, ...]) -> Any:
    """The thing that was made, if it has what its protocol asks for.

    Raises
    ------
    InputError
        Naming what is missing.
    """
    missing = [part for part in parts if not hasattr(made, part)]
    if missing:
        kind = type(made).__name__
        rule = f"{name!r} makes no {what}: {kind} has no {' and no '.join(missing)}"
        raise InputError(rule, field=field)
    return made
