"""Packages are reached by imports, not by strings, and classes are changed by nobody else."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("formulations", "morph_opt")
LAYERS = [
    contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    if contract["type"] == "layers"
]
GROUPS = {
    f"morph_opt.{name}" for name in ("executors", "objectives", "policies", "solvers", "traces")
}
"""Groups of entry points: words for other packages, not modules."""
_MODULE = re.compile(rf"({'|'.join(PACKAGES)})(\.\w+)*(?=$|[.:])")


def is_above(target: str, own: str) -> bool:
    """Return whether the import contract forbids ``own`` to import ``target``."""
    if own.split(".", maxsplit=1)[0] == "formulations":
        return target.split(".", maxsplit=1)[0] != "formulations"
    for contract in LAYERS:
        for container in contract.get("containers", []):
            parts = [name.removeprefix(f"{container}.").split(".")[0] for name in (target, own)]
            if not all(name.startswith(f"{container}.") for name in (target, own)):
                continue
            height = {
                package: -at
                for at, layer in enumerate(contract["layers"])
                for package in layer.split(" | ")
            }
            if parts[0] == parts[1] or parts[1] not in height:
                continue
            # A module that no layer lists is an entry point, above them all.
            if height.get(parts[0], 1) >= height[parts[1]]:
                return True
    return False


def _docstrings(tree: ast.AST) -> set[int]:
    """Return ids of the constants that are statements: docstrings of whatever is above them."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def named_above(source: str, own: str) -> Iterator[str]:
    """Yield ``line: string`` of each string that names a module above the package of ``own``."""
    tree = ast.parse(source)
    texts = _docstrings(tree)
    imported = {
        id(word)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
        for word in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        found = _MODULE.match(node.value)
        group = node.value in GROUPS and id(node) not in imported
        if found and id(node) not in texts and not group and is_above(found[0], own):
            yield f"{own}, line {node.lineno}: {node.value}"


def patched(source: str, own: str) -> Iterator[str]:
    """Yield ``line: statement`` of each change to something that another module defines.

    Found are assignments to an attribute of an imported name; ruff finds `setattr` (B010).
    """
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).split(".")[0] in PACKAGES
    }
    for node in ast.walk(tree):
        changed = isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
        if changed and ast.unparse(node).split(".")[0] in imported:
            yield f"{own}, line {node.lineno}: {ast.unparse(node)}"


def sources() -> dict[str, str]:
    """Return the source of every module by its dotted name."""
    found = {}
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path.read_text("utf-8")
    return found


def test_no_string_names_a_module_above() -> None:
    found = {name: list(named_above(source, name)) for name, source in sources().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_no_module_changes_a_class_of_another() -> None:
    assert [line for name, source in sources().items() for line in patched(source, name)] == []


def test_a_string_that_names_a_module_above_is_found() -> None:
    source = textwrap.dedent(
        '''
        """morph_opt.replay is only mentioned here."""
        import importlib
        module = importlib.import_module("morph_opt.replay.why")
        made = "morph_opt.live.cli:main"
        solver = importlib.import_module(f"morph_opt.scheduling.solvers.{name}")
        group = "morph_opt.policies"
        lower = "morph_opt.core.domain.errors"
        '''
    )
    lines = {
        line.split(": ")[1] for line in named_above(source, "morph_opt.scheduling.solvers.registry")
    }
    assert lines == {"morph_opt.replay.why", "morph_opt.live.cli:main"}
    assert len(list(named_above(source, "formulations.round.tables"))) == 4
    group = 'importlib.import_module("morph_opt.policies")'
    assert list(named_above(group, "morph_opt.scheduling.solvers.registry")) != []


def test_a_change_to_a_class_of_another_module_is_found() -> None:
    source = textwrap.dedent(
        """
        import formulations
        from formulations.round.tables import Level

        class Own:
            pass

        Own.of = 1
        Level.of = classmethod(Level.of.__func__)
        formulations.round.tables.Level.worth = None
        """
    )
    assert [line.split(": ")[1] for line in patched(source, "morph_opt.made_up")] == [
        "Level.of",
        "formulations.round.tables.Level.worth",
    ]
