"""Import of a package's public names at their first use, so that a command loads less."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazily(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package (PEP 562) that imports each name at its first use.

    >>> from morph_opt import plan
    >>> plan.needed(0.9, 0.95)
    36

    Parameters
    ----------
    package
        ``__name__`` of the package.
    names
        Names by the module that defines them, ``.module`` for one of the package and ``.`` for
        the package's own modules. A name that is a module as well would hide it.
    """
    where = {name: module for module, known in names.items() for name in known}

    def find(name: str) -> object:
        if name not in where:
            rule = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(rule, name=name, obj=sys.modules[package])
        module = where[name]
        if module == ".":
            return import_module(f".{name}", package)
        return getattr(import_module(module, package), name)

    return find
