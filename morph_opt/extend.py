"""A user's own objective, solver, policy or trace reader: by import path or entry point."""

from __future__ import annotations

import importlib
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
