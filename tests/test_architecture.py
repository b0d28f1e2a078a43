"""docs/architecture.md lists the packages in the order of the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def test_files_that_the_page_names_are_there(project_root: Path) -> None:
    page = (project_root / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:morph_opt|formulations|tests|benchmarks)/[\w/.]*)`", page)
    assert len(named) > 5
    assert [one for one in named if not (project_root / one).exists()] == []


def test_the_table_of_packages_is_the_import_contract(project_root: Path) -> None:
    contracts = tomllib.loads((project_root / "pyproject.toml").read_text("utf-8"))
    layers = {
        one["id"]: one.get("layers", []) for one in contracts["tool"]["importlinter"]["contracts"]
    }
    order: dict[str, tuple[int, int]] = {}
    for at, layer in enumerate(reversed(layers["layers"])):
        for package in layer.split(" | "):
            inside = reversed(layers.get(package, [package]))
            for below, names in enumerate(inside):
                wing = f"{package}." if package in layers else ""
                order |= {f"{wing}{name}": (at, below) for name in names.split(" | ")}
    page = (project_root / "docs" / "architecture.md").read_text("utf-8")
    table = page.partition("| package | holds |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    assert sorted(named) == sorted({*order, "formulations"})
    places = [order[name] for name in named if name != "formulations"]
    assert places == sorted(places), "from the bottom: a package is listed after what it imports"
