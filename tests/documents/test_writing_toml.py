"""Everything that is written as TOML is read back equal, whatever its names are."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from morph_opt.core.documents import key_lines, parse_toml, toml_text
from morph_opt.core.domain import Cluster, GpuType, Leaf, Node, NodeType
from morph_opt.inputs.clusters import cluster_from_toml, cluster_to_toml
from morph_opt.inputs.perf.analytic.modelfile import dump, entries_of
from morph_opt.inputs.perf.analytic.zoo import ZOO_FILE, zoo_text
from morph_opt.replay.scenario import Scenario, read_scenario

NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cf", "Co", "Cn", "Zl", "Zp", "Zs")), min_size=1
) | st.sampled_from(["gpt-2.7b", 'a"b', "a'b", "a.b.c", "#", "[x]", "=", "\\u0041", "true", "1"])
AMOUNTS = st.floats(1e-3, 1e9)


@settings(max_examples=25)
@given(NAMES)
def test_model_files(name: str) -> None:
    entry = entries_of(zoo_text(), ZOO_FILE)[0]
    named = replace(entry, architecture=replace(entry.architecture, name=name))
    (again,) = entries_of(dump([named], None, "x"), "x.toml")
    assert again == named


@settings(max_examples=25)
@given(st.lists(NAMES, min_size=5, max_size=5, unique=True), AMOUNTS, AMOUNTS)
def test_clusters_and_runs(names: list[str], amount: float, other: float) -> None:
    title, gpu, kind, leaf, node = names
    hardware = NodeType(kind, GpuType(gpu, amount, other), 8, 64, other, amount, other)
    nodes = tuple(Node(f"{node}-{i}", hardware, leaf) for i in range(3))
    cluster = Cluster(title, nodes, (Leaf(leaf, amount),))
    assert cluster_from_toml(cluster_to_toml(cluster)) == cluster
    scenario = Scenario(title, cluster, policy=kind)
    scenario = scenario.replaced(restart_s_by_model={gpu: min(amount, 1e6)}, gap=1e-5)
    text = scenario.to_toml()
    assert parse_toml(text, None)["scheduler"]["policy"] == kind
    assert key_lines(text)["workload.trace"] > 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(text, "utf-8")
        assert read_scenario(path) == scenario


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_any_tables(tables: dict[str, object]) -> None:
    assert parse_toml(toml_text(tables), None) == tables
