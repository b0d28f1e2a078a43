"""Resources of Kubernetes that are whole GPUs, and those that are shares of GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

NVIDIA = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"

_WHOLE = re.compile(
    r"[^/]+/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|huawei\.com/Ascend[0-9A-Za-z]*"
    r"|cambricon\.com/mlu|google\.com/tpu|aws\.amazon\.com/neuron(device)?"
)
_SHARE = re.compile(
    r"nvidia\.com/(gpu\.shared|mig-.+|gpumem.*|gpucores|vgpu.*|grid_.*)"
    r"|[^/]+/gpu[-.]?(mem|memory|cores?|share|shared|percentage|core|milli).*"
    r"|[^/]+/v(gpu|cuda)[-.a-z]*|huawei\.com/Ascend[0-9A-Za-z]*-(memory|core)|.+/.+\.shared",
    re.IGNORECASE,
)


def is_share(resource: str) -> bool:
    """Return whether a resource is a share of GPUs: time slices, memory, cores, MIG, vGPU."""
    return _SHARE.fullmatch(resource) is not None


def is_gpu(resource: str) -> bool:
    """Return whether a resource counts whole GPUs, of whatever vendor."""
    return _WHOLE.fullmatch(resource) is not None and not is_share(resource)


def gpus_in(resources: Iterable[str]) -> list[str]:
    """Return the resources that count whole GPUs, in order."""
    return [name for name in resources if is_gpu(name)]


def shares_of_node(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return how a node offers shares as whole GPUs; "" if it does not.

    The labels are those of NVIDIA's GPU feature discovery, the annotation is HAMi's.
    """
    replicas = labels.get("nvidia.com/gpu.replicas", "")
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "none")
    product = labels.get(PRODUCT, "")
    if strategy not in ("", "none"):
        return strategy
    if product.endswith("-SHARED") or (replicas.isdigit() and int(replicas) > 1):
        return "time-slicing"
    if labels.get("nvidia.com/mps.capable") == "true":
        return "mps"
    if "-MIG-" in product or (
        labels.get("nvidia.com/mig.strategy") == "single" and _sliced(labels)
    ):
        return "MIG"
    if labels.get("nvidia.com/vgpu.present") == "true":
        return "vGPU"
    hami = (one for one in annotations if one.startswith("hami.io/node-") and "register" in one)
    return "HAMi" if any(hami) else ""


def _sliced(labels: Mapping[str, str]) -> bool:
    """Return whether the GPUs of a node are cut in slices that count as GPUs."""
    return labels.get("nvidia.com/gpu.slices.gi", "0") not in ("", "0")


def physical_gpus(labels: Mapping[str, str], counted: int) -> int:
    """Return the number of physical GPUs of a node that offers shares."""
    count = labels.get("nvidia.com/gpu.count", "")
    return int(count) if count.isdigit() and 0 < int(count) <= counted else counted
