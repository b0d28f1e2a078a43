"""Counts that can only be slips are refused at once, not after minutes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import A800_NODE, Cluster, InputError
from morph_opt.inputs.clusters import load_cluster


@pytest.mark.parametrize("spec", ["999999999x8", "1000001x8", "600000x8+600000x8"])
def test_too_many_nodes(spec: str) -> None:
    with pytest.raises(InputError, match="at most 1000000"):
        load_cluster(spec)


def test_too_many_gpus_per_node() -> None:
    with pytest.raises(InputError, match=r"node_type\.gpus: must be at most 1024, got 1025"):
        replace(A800_NODE, gpus=1025)
    assert Cluster.uniform(1, replace(A800_NODE, gpus=1024)).gpus == 1024
