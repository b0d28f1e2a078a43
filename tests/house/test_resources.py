"""Resources are listed in `formulations.resources` and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

from formulations.resources import LEAST, RESOURCES, SIDES, UPLINK

FOLDERS = ("formulations", "morph_opt", "benchmarks")
RESOURCE_OF = {name: r.name for r in SIDES for name in (r.field, r.asked) if name}
"""By the field of node types, demands and jobs."""

STATE_THEM = {
    "formulations/resources.py": "the table",
    "morph_opt/core/domain/cluster.py": "fields of `NodeType`",
    "morph_opt/core/domain/placement.py": "fields of `SideDemand`",
    "morph_opt/core/domain/job.py": "fields of `Job`",
    "morph_opt/core/domain/catalog.py": "amounts of hardware that is known",
    "morph_opt/inputs/clusters/short.py": "options of a cluster without a file",
    "morph_opt/inputs/perf/analytic/support.py": "demands that follow from the model's equations",
    "morph_opt/scheduling/kueue/amounts.py": "names in Kubernetes",
    "benchmarks/instances/messy.py": "amounts of drawn clusters and demands",
    "benchmarks/instances/scaled.py": "amounts of one cluster",
    "benchmarks/checks/messy/snapshots.py": "amounts of drawn clusters and demands",
    "benchmarks/checks/moves.py": "amounts of drawn clusters and demands",
    "benchmarks/checks/replays/documents.py": "imports nothing of the project",
    "benchmarks/checks/replays/places.py": "imports nothing of the project",
}
"""Files that may name several resources: they say what one of them is, or how much there is."""


def named(tree: ast.AST) -> set[str]:
    """Side resources whose fields code names, as attributes, arguments or texts."""
    found = set()
    for node in ast.walk(tree):
        word = getattr(node, "attr", getattr(node, "id", getattr(node, "arg", None)))
        found.add(node.value if isinstance(node, ast.Constant) else word)
    return {RESOURCE_OF[word] for word in found if isinstance(word, str) and word in RESOURCE_OF}


def test_no_other_file_lists_resources(project_root: Path) -> None:
    several = set()
    for path in sorted(p for place in FOLDERS for p in (project_root / place).rglob("*.py")):
        text, name = path.read_text("utf-8"), str(path.relative_to(project_root))
        if any(field in text for field in RESOURCE_OF) and len(named(ast.parse(text))) > 1:
            several.add(name)
    assert several == set(STATE_THEM), "derive it from RESOURCES"


def test_the_table_is_in_order() -> None:
    assert [resource.optional for resource in RESOURCES] == sorted(r.optional for r in RESOURCES)
    assert all(resource.optional for resource in RESOURCES[LEAST:])
    assert SIDES[UPLINK].uplink
    assert sum(resource.uplink for resource in SIDES) == 1
    assert not SIDES[UPLINK].per_node, "uplinks carry a share per GPU"
    for field in ("name", "field", "words", "rule"):
        values = [getattr(resource, field) for resource in RESOURCES]
        assert len(set(values)) == len(values), field
