"""Files of the package itself, which need no bounds and no lines in messages."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any


def packaged_text(package: str, *path: str) -> str:
    """Return the UTF-8 text of a file in a package, wherever that is installed.

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
