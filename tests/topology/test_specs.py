"""The cluster specs of the project: what they promise, and what a spec may not say of a leaf."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

from morph_opt.core.domain import Cluster, InputError, Span, default_cluster
from morph_opt.inputs.clusters import cluster_from_toml, cluster_to_toml, read_cluster
from morph_opt.inputs.topology.graph import topology_of

FOLDER = Path(__file__).resolve().parents[2] / "instances" / "clusters"
SPECS = sorted(path.stem for path in FOLDER.glob("*.toml"))


def spec(name: str) -> Cluster:
    return read_cluster(FOLDER / f"{name}.toml")


def test_these_specs_exist() -> None:
    assert SPECS == [
        "a100-h100",
        "a800-32x8-4leaves",
        "a800-64x8-4leaves",
        "a800-8x8",
        "gavel-v100-p100-t4",
        "nvl72-row",
    ]


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_survives_writing_and_reading(name: str) -> None:
    made = spec(name)
    assert cluster_from_toml(cluster_to_toml(made)) == made


def test_the_flat_spec_is_the_default_cluster() -> None:
    flat = spec("a800-8x8")
    assert flat.nodes == default_cluster().nodes
    assert flat.leaves == ()


@pytest.mark.parametrize(("nodes", "gpus"), [(32, 256), (64, 512)])
def test_four_leaves_are_oversubscribed_two_to_one(nodes: int, gpus: int) -> None:
    made = spec(f"a800-{nodes}x8-4leaves")
    topology = topology_of(made)
    assert (len(made.nodes), made.gpus, len(made.leaf_names)) == (nodes, gpus, 4)
    assert {topology.oversubscription(leaf) for leaf in range(4)} == {2.0}
    sides = [[n.name for n in made.nodes if n.leaf == leaf] for leaf in made.leaf_names[:2]]
    assert topology.bandwidth_gb_per_s(*sides) == nodes / 4 * 100.0 / 2.0


def test_a_rack_is_one_nvlink_domain_of_72_gpus() -> None:
    made = spec("nvl72-row")
    gpus = Counter[str | None]()
    for node in made.nodes:
        gpus[node.nvlink_domain] += node.type.gpus
    assert gpus == {f"rack-{i}": 72 for i in range(4)}
    assert topology_of(made).span(range(18)) is Span.NVLINK
    assert topology_of(made).span([17, 18]) is Span.POD


@pytest.mark.parametrize(
    ("name", "types"),
    [("gavel-v100-p100-t4", ["V100", "P100", "T4"]), ("a100-h100", ["A100-80GB", "H100-80GB"])],
)
def test_mixed_pools_are_mixed(name: str, types: list[str]) -> None:
    assert [gpu.name for gpu in spec(name).gpu_types] == types


BASE = """
[node_type.t]
gpu_type = "V100"
gpus = 4
cpus = 8
host_memory_gib = 64
nvlink_gb_per_s = 300
rdma_gb_per_s = 12.5

[[nodes]]
type = "t"
leaf = "l"

"""


def test_a_leaf_without_a_table_is_not_bounded() -> None:
    assert topology_of(cluster_from_toml(BASE)).uplink_gb_per_s == (math.inf,)
    bounded = cluster_from_toml(f"{BASE}[leaf.l]\nuplink_gb_per_s = 25\n")
    assert topology_of(bounded).uplink_gb_per_s == (25.0,)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[leaf.m]\nuplink_gb_per_s = 1", "c.toml, line 14, leaf.m: no node is connected to it"),
        ("[leaf.l]\nuplink_gb_per_s = 0", "c.toml, line 15, leaf.l.uplink_gb_per_s: must be"),
        ("[leaf.l]\nuplink = 1", "c.toml, line 15, leaf.l.uplink: unknown field"),
        ("[leaf.l]", "c.toml, line 14, leaf.l.uplink_gb_per_s: is missing"),
        ('[leaf.l]\nuplink_gb_per_s = "x"', "c.toml, line 15, .*must be a number"),
        ("[leaf]\nl = 3", "c.toml, line 15, leaf.l: must be a table, got 3"),
    ],
)
def test_a_wrong_leaf_names_file_line_field_and_rule(table: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cluster_from_toml(f"{BASE}{table}\n", file="c.toml")
