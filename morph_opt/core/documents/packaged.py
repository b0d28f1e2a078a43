"""Files of the package itself, which are trusted: no limits, no line numbers in errors."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any


def packaged_text(package: str, *path: str) -> str:
    """Return the UTF-8 text of a file in an installed package.

    Raises
    ------
    FileNotFoundError
        If the package has no such file: the installation is not whole.
    """
    return resources.files(package).joinpath(*path).read_text("utf-8")


def packaged_toml(package: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML file in a package.

    Raises
    ------
    FileNotFoundError
        As `packaged_text`.
    """
    return tomllib.loads(packaged_text(package, name))
