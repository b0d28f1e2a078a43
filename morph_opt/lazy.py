"""The names of a package, imported when they are first asked for: a command loads what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module


def lazily(package: str) -> Callable[[str], object]:
    """``__getattr__`` of a package whose ``__init__`` imports its names for type checkers alone.

    What is imported below ``if TYPE_CHECKING:`` there is imported here, name by name; a name of a
    module of the package would hide that module and must not be among them.

    >>> from morph_opt import plan
    >>> plan.needed(0.9, 0.95)
    36

    Parameters
    ----------
    package
        Its ``__name__``.
    """
    where: dict[str, tuple[str, str]] = {}

    def find(name: str) -> object:
        if not where:
            where.update(_imported(package))
        if name not in where:
            rule = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(rule, name=name, obj=sys.modules[package])
        module, known = where[name]
        if module == package:  # a module of the package, which has no name before it is imported
            return import_module(f"{module}.{known}")
        return getattr(import_module(module), known)

    return find


def _imported(package: str) -> dict[str, tuple[str, str]]:
    """Module and name there, by name here."""
    import ast
    from pathlib import Path

    source = Path(str(sys.modules[package].__file__)).read_text("utf-8")
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for one in node.body:
                if isinstance(one, ast.ImportFrom):
                    for known in one.names:
                        found[known.asname or known.name] = (str(one.module), known.name)
    return found
