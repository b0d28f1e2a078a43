"""Resources are listed and numbered in `formulations.resources` and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from formulations.resources import LEAST, RESOURCES, SIDES, UPLINK

FOLDERS = ("formulations", "morph_opt", "benchmarks")
RESOURCE_OF = {name: r.name for r in SIDES for name in (r.field, r.asked) if name}
"""By the field of node types, demands and jobs."""
COLUMNS = {"side", "demand", "capacity", "worst_side", "need", "needs"}
"""Names of arrays and tuples with an entry per resource."""

STATE_THEM = {
    "formulations/resources.py": "the table",
    "morph_opt/core/domain/cluster.py": "fields of `NodeType`",
    "morph_opt/core/domain/placement.py": "fields of `SideDemand`",
    "morph_opt/core/domain/job.py": "fields of `Job`",
    "morph_opt/core/domain/catalog.py": "amounts of hardware that is known",
    "morph_opt/inputs/clusters/equal.py": "options of a cluster without a file",
    "morph_opt/inputs/perf/analytic/support.py": "demands that follow from the model's equations",
    "benchmarks/instances/scaled.py": "amounts of one cluster",
    "benchmarks/checks/replays/documents.py": "imports nothing of the project",
    "benchmarks/checks/replays/places.py": "imports nothing of the project",
}
"""Files that may name several resources: they say what one of them is, or how much there is."""


BY_NUMBER = re.compile("|".join((*(rf"\b{word}\[" for word in COLUMNS), *RESOURCE_OF)))
"""A file without any of this is not parsed."""


def numbered(tree: ast.AST) -> Iterator[str]:
    """Entries of `COLUMNS` that are taken by a number other than 0, that of GPUs."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        word = getattr(node.value, "attr", getattr(node.value, "id", ""))
        index = node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) else node.slice
        try:
            number = ast.literal_eval(index)
        except ValueError:
            continue
        if word in COLUMNS and type(number) is int and number != 0:
            yield ast.unparse(node)


def named(tree: ast.AST) -> set[str]:
    """Side resources whose fields code names, as attributes, arguments or texts."""
    found = set()
    for node in ast.walk(tree):
        word = getattr(node, "attr", getattr(node, "id", getattr(node, "arg", None)))
        found.add(node.value if isinstance(node, ast.Constant) else word)
    return {RESOURCE_OF[word] for word in found if isinstance(word, str) and word in RESOURCE_OF}


def test_no_other_file_numbers_or_lists_resources(project_root: Path) -> None:
    several = set()
    for path in sorted(p for place in FOLDERS for p in (project_root / place).rglob("*.py")):
        text, name = path.read_text("utf-8"), str(path.relative_to(project_root))
        if not BY_NUMBER.search(text):
            continue
        tree = ast.parse(text)
        assert list(numbered(tree)) == [], name
        if len(named(tree)) > 1:
            several.add(name)
    assert several == set(STATE_THEM), "derive it from RESOURCES"


@pytest.mark.parametrize(
    "text",
    ["used = table.side[k, 2]", "need[3] += 1", "x = held.demand[:, 3]", "short[:, 1] = side[-1]"],
)
def test_a_number_is_found(text: str) -> None:
    assert len(list(numbered(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "text", ["capacity[t, 0]", "demand[:, 1:]", "side[row, UPLINK]", "times[2]", "side[job][0]"]
)
def test_other_numbers_are_not_taken_for_resources(text: str) -> None:
    assert list(numbered(ast.parse(text))) == []


def test_a_list_of_fields_is_found() -> None:
    text = "row = [kind.cpus, kind.host_memory_gib]; other = {'rdma_gb_per_s': 1.0}; f(cpus=2)"
    assert named(ast.parse(text)) == {"cpu", "host_memory_gib", "rdma_gb_per_s"}


def test_the_table_is_in_order() -> None:
    assert [resource.optional for resource in RESOURCES] == sorted(r.optional for r in RESOURCES)
    assert all(resource.optional for resource in RESOURCES[LEAST:])
    assert SIDES[UPLINK].uplink
    assert sum(resource.uplink for resource in SIDES) == 1
    assert not SIDES[UPLINK].per_node, "uplinks carry a share per GPU"
    for field in ("name", "field", "words", "rule"):
        values = [getattr(resource, field) for resource in RESOURCES]
        assert len(set(values)) == len(values), field
