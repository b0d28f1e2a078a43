"""Prices of GPU types: in specs, on command lines, in the catalog."""

from __future__ import annotations

import pytest

from morph_opt.core.domain import GPU_TYPES, GpuType, InputError
from morph_opt.inputs.clusters import cluster_from_toml, cluster_to_toml, parse_short

NODE = """
[node_type.n]
gpu_type = "{gpu}"
gpus = 8
cpus = 96
host_memory_gib = 1600
nvlink_gb_per_s = 400
rdma_gb_per_s = 100

[[nodes]]
type = "n"
"""


def spec(gpu: str, *lines: str) -> str:
    return "\n".join([f'[gpu_type."{gpu}"]', *lines]) + NODE.format(gpu=gpu)


def price(text: str) -> float | None:
    return cluster_from_toml(text).gpu_types[0].price_per_hour


def test_the_price_of_a_catalog_type_may_stand_alone() -> None:
    priced = cluster_from_toml(spec("A800-80GB", "price_per_hour = 2"))
    assert priced.gpu_types == (GpuType("A800-80GB", 80.0, 2.0),)
    assert price(spec("Z9", "memory_gib = 9", "price_per_hour = 0.5")) == 0.5
    assert price(spec("V100", "memory_gib = 16")) == GPU_TYPES["V100"].price_per_hour
    assert price(NODE.format(gpu="A800-80GB")) is None


def test_prices_survive_the_run_folder() -> None:
    mixed = parse_short("1x4:V100+1x4:A800-80GB").with_prices({"v100": 2.48, "A800-80GB": 1.0})
    assert cluster_from_toml(cluster_to_toml(mixed)) == mixed
    assert [kind.price_per_hour for kind in mixed.gpu_types] == [2.48, 1.0]
    plain = parse_short("1x4:V100")
    assert cluster_to_toml(plain).count("price") == 0
    assert plain.with_prices({}) == plain


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["price_per_hour = 0"], r"price_per_hour: must be above 0|must be above 0, got 0"),
        (["price_per_hour = nan"], "must be a finite number"),
        (['price_per_hour = "2"'], "must be a number"),
        (["prices = 2"], "unknown field"),
    ],
)
def test_bad_prices_in_a_spec(lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        cluster_from_toml(spec("A800-80GB", *lines), file="c.toml")
    assert "c.toml, line 2" in str(caught.value)


def test_bad_names_and_values() -> None:
    cluster = parse_short("1x4:V100")
    with pytest.raises(InputError, match="has no GPU type 'K80'; it has V100"):
        cluster.with_prices({"K80": 1.0})
    with pytest.raises(InputError, match="'V100' is named twice"):
        cluster.with_prices({"v100": 1.0, "V100": 1.0})
    with pytest.raises(InputError, match="must be above 0"):
        cluster.with_prices({"V100": 0.0})
