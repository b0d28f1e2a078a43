"""Hardware that users may name without describing it."""

from __future__ import annotations

from morph_opt.core.domain.cluster import Cluster, GpuType, NodeType

GPU_TYPES: dict[str, GpuType] = {
    gpu.name: gpu
    for gpu in (
        GpuType("K80", 12.0, 0.135),
        GpuType("P100", 16.0, 0.43),
        GpuType("V100", 16.0, 0.74),
        GpuType("V100-32GB", 32.0),
        GpuType("T4", 16.0),
        GpuType("A100-40GB", 40.0),
        GpuType("A100-80GB", 80.0),
        GpuType("A800-80GB", 80.0),
        GpuType("H100-80GB", 80.0),
        GpuType("H800-80GB", 80.0),
        GpuType("GB200", 186.0),
    )
}
"""GPU types by name; memory as stated by the vendor's data sheet, taken as GiB.

The three prices are those that the public Gavel artifact takes for one cloud (GCP, preemptible,
2020; ``scheduler/utils.py``, ``read_per_instance_type_spot_prices_json``). The other types have
none: a price that nobody stated is required, not guessed.
"""

A800_NODE = NodeType(
    name="a800-80gb-x8",
    gpu_type=GPU_TYPES["A800-80GB"],
    gpus=8,
    cpus=96,
    host_memory_gib=1600.0,
    nvlink_gb_per_s=400.0,
    rdma_gb_per_s=100.0,
)
"""Node of Morphling's testbed (MLSys'25, section 6)."""


def default_cluster() -> Cluster:
    """Return eight A800 nodes with eight GPUs each, the cluster of Morphling's traces."""
    return Cluster.uniform(8, A800_NODE)
