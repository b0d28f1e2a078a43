"""Cluster specs and the short form."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morph_opt.core.documents import Fields, key_lines, parse_toml, toml_text
from morph_opt.core.domain import (
    A800_NODE,
    GPU_TYPES,
    Cluster,
    GpuType,
    InputError,
    Node,
    NodeType,
    default_cluster,
)
from morph_opt.inputs.clusters import (
    cluster_from_toml,
    cluster_of,
    cluster_to_tables,
    cluster_to_toml,
    load_cluster,
    parse_short,
    read_cluster,
)
from morph_opt.inputs.clusters.spec import CLUSTER_FIELDS

SPEC = """\
name = "two racks"

[gpu_type."My GPU"]
memory_gib = 96

[node_type.big]
gpu_type = "My GPU"
gpus = 4
cpus = 64
host_memory_gib = 512
nvlink_gb_per_s = 900
rdma_gb_per_s = 50

[[nodes]]
type = "big"
count = 2
name = "a"
leaf = "left"
nvlink_domain = "rack-0"

[[nodes]]
type = "big"
"""


def test_a_spec() -> None:
    cluster = cluster_from_toml(SPEC)
    big = NodeType("big", GpuType("My GPU", 96.0), 4, 64, 512.0, 900.0, 50.0)
    assert cluster == Cluster(
        "two racks",
        (
            Node("a-0", big, "left", "rack-0"),
            Node("a-1", big, "left", "rack-0"),
            Node("big", big),
        ),
    )


def test_name_of_a_spec_without_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SPEC.split("\n", 1)[1])
    assert read_cluster(path).name == "mine"


@pytest.mark.parametrize("text", ["8x8", "1x1", "12x4:V100", "100x8", "4x8:A100-80GB+2x4:V100"])
def test_written_clusters_read_back_equal(text: str) -> None:
    cluster = parse_short(text)
    assert cluster_from_toml(cluster_to_toml(cluster)) == cluster
    nested = parse_toml(toml_text({"x": 1, "here": cluster_to_tables(cluster)}), None)["here"]
    assert cluster_of(Fields(nested, "here", None, CLUSTER_FIELDS)) == cluster


NAMES = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=8
).filter(str.isprintable)


@given(
    names=st.lists(NAMES, min_size=1, max_size=6, unique=True),
    type_name=NAMES,
    domain=st.none() | NAMES,
    memory_gib=st.floats(0.5, 500.0),
    ssd_gib=st.just(0.0) | st.floats(0.0, 1e6),
)
def test_any_cluster_reads_back_equal(
    names: list[str], type_name: str, domain: str | None, memory_gib: float, ssd_gib: float
) -> None:
    gpu_type = GpuType("gpu " + type_name, memory_gib)
    kind = NodeType(type_name, gpu_type, 3, 7, 0.1, 1e-3, 2e9, ssd_gib)
    cluster = Cluster("any", tuple(Node(name, kind, names[0], domain) for name in names))
    assert cluster_from_toml(cluster_to_toml(cluster)) == cluster
    assert ("local_ssd_gib" in cluster_to_toml(cluster)) == bool(ssd_gib)


def test_short_form() -> None:
    assert parse_short("8x8") == default_cluster()
    assert parse_short("8x8:A800-80GB") == default_cluster()
    small = parse_short("2x4:V100")
    assert (small.gpus, small.nodes[0].type.gpu_type) == (8, GPU_TYPES["V100"])
    assert small.nodes[0].type.cpus == A800_NODE.cpus
    mixed = parse_short("2x8+1x4:T4")
    assert [node.name for node in mixed.nodes] == ["pool0-0", "pool0-1", "pool1-0"]
    assert mixed.gpus == 20


@pytest.mark.parametrize("text", ["", "8", "8x", "x8", "8x8:", "8x8+", "0x8", "8x0", "2x2:Abacus"])
def test_bad_short_forms(text: str) -> None:
    with pytest.raises(InputError):
        parse_short(text)


def test_load_cluster_takes_files_and_short_forms(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(SPEC)
    assert load_cluster(str(path)).name == "two racks"
    assert load_cluster("3x2").gpus == 6


def replaced(old: str, new: str) -> str:
    assert old in SPEC
    return SPEC.replace(old, new)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.toml, nodes: the cluster has no nodes"),
        ("nodes = []", "f.toml, line 1, nodes: the cluster has no nodes"),
        ("a = = 1", "f.toml, line 1: is not TOML"),
        (
            replaced("gpus = 4", "gpus = 0"),
            "f.toml, line 8, node_type.big.gpus: must be at least 1",
        ),
        (replaced("gpus = 4", "gpus = 4.5"), "f.toml, line 8, node_type.big.gpus: must be a whole"),
        (replaced("gpus = 4", "gpus = true"), "line 8, node_type.big.gpus: must be a whole"),
        (replaced("cpus = 64\n", ""), "f.toml, line 6, node_type.big.cpus: is missing"),
        (replaced("cpus = 64", "cpu = 64"), "f.toml, line 9, node_type.big.cpu: unknown"),
        (replaced("= 512", "= nan"), "f.toml, line 10, node_type.big.host_memory_gib: must be a"),
        (replaced("= 900", "= -1"), "f.toml, line 11, node_type.big.nvlink_gb_per_s: must be ab"),
        (replaced("memory_gib = 96", "memory_gib = 0"), "line 4, gpu_type.My GPU.memory_gib: must"),
        (
            replaced('"My GPU"\ngpus', '"Other"\ngpus'),
            "line 7, node_type.big.gpu_type: unknown GPU",
        ),
        (
            replaced('type = "big"\ncount', 'type = "no"\ncount'),
            "line 15, nodes[0].type: unknown n",
        ),
        (replaced("count = 2", "count = 0"), "line 16, nodes[0].count: must be at least 1, got 0"),
        (replaced('leaf = "left"', 'leaf = ""'), "line 18, nodes[0].leaf: must be a non-empty"),
        (replaced('"rack-0"', '" r"'), "line 19, nodes[0].nvlink_domain: must be a non-empty"),
        (SPEC + 'name = "a-1"\n', "nodes: must be unique, 'a-1' occurs twice"),
        ("nodes = [1]", "f.toml, nodes[0]: must be a table"),
        ("node_type = 1", "f.toml, line 1, node_type: must be a table, got 1"),
        ("colour = 1", "f.toml, line 1, colour: unknown field; known are name, gpu_type"),
    ],
)
def test_bad_specs(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        cluster_from_toml(text, file="f.toml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read \(No such file"):
        read_cluster(tmp_path / "none.toml")


def test_lines_of_keys() -> None:
    lines = key_lines(SPEC)
    assert lines["name"] == 1
    assert lines["gpu_type.My GPU"] == 3
    assert lines["node_type.big.rdma_gb_per_s"] == 12
    assert (lines["nodes[0]"], lines["nodes[1]"], lines["nodes[1].type"]) == (14, 21, 22)
