"""docs/architecture.md lists the rooms that there are, in the order of the import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def test_files_that_the_page_names_are_there(project_root: Path) -> None:
    page = (project_root / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"`((?:morph_opt|formulations|tests|benchmarks)/[\w/.]*)`", page)
    assert len(named) > 5
    assert [one for one in named if not (project_root / one).exists()] == []


def test_the_table_of_rooms_is_the_import_contract(project_root: Path) -> None:
    contracts = tomllib.loads((project_root / "pyproject.toml").read_text("utf-8"))
    listed = contracts["tool"]["importlinter"]["contracts"]
    layers = next(one for one in listed if one["id"] == "layers")["layers"]
    ranks = {
        room.strip(): -place for place, layer in enumerate(layers) for room in layer.split("|")
    }
    page = (project_root / "docs" / "architecture.md").read_text("utf-8")
    rooms = re.findall(r"^\| `morph_opt\.(\w+)` \|", page, re.MULTILINE)
    assert sorted(rooms) == sorted(ranks)
    order = [ranks[room] for room in rooms]
    assert order == sorted(order), "from the bottom: a room stands behind what it may import"
