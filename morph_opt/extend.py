"""A user's own objective, solver, policy or trace reader: by import path or entry point."""

from __future__ import annotations

import importlib
import inspect
from importlib.metadata import entry_points
from typing import Any

from morph_opt.domain.errors import InputError


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
        If an import path is given and cannot be imported.
    """
    for point in entry_points(group=group):
        if point.name == name:
            return point.load()
    if ":" not in name:
        return None
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
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
