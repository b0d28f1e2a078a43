"""Nodes of Kubernetes with GPUs, and the labels and taints that limit their pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from morph_opt.core.documents import Fields
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE
from morph_opt.round.live.kube_fields import (
    Taint,
    is_ready,
    labels_of,
    meta_of,
    name_of,
    quantity_of,
    taints_of,
)
from morph_opt.round.live.kube_gpus import (
    NVIDIA,
    PRODUCT,
    gpus_in,
    is_share,
    physical_gpus,
    shares_of_node,
)

HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class KubeNode:
    """A node with GPUs.

    Parameters
    ----------
    name, labels, taints
        Its name and labels, and taints that keep pods away.
    kind, resource, gpus
        Type of its GPUs ("" if unknown), the resource that counts them, and their number.
    closed
        Why nothing may start there; "" if it is open.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    kind: str
    resource: str
    gpus: int
    closed: str


def read_node(item: Fields) -> KubeNode | None:
    """Read a node; None for one without whole GPUs."""
    status = item.object("status", None) if item.has("status") else Fields({}, "", None, None)
    spec = item.object("spec", None) if item.has("spec") else Fields({}, "", None, None)
    word = "allocatable" if status.has("allocatable") else "capacity"
    table = status.object(word, None) if status.has(word) else Fields({}, "", None, None)
    counts: dict[str, int] = {}
    for key in gpus_in(table):
        value = quantity_of(table, key)
        if value != int(value):
            raise table.error(key, f"must be a whole number, got {value:g}")
        if value:
            counts[key] = int(value)
    if not counts:
        return None
    gpus = sum(counts.values())
    meta = meta_of(item)
    labels = labels_of(meta)
    notes = meta.value("annotations", dict[str, str]) if meta.has("annotations") else {}
    shared = shares_of_node(labels, notes)
    if shared:
        gpus = physical_gpus(labels, gpus)
    if gpus > MOST_GPUS_PER_NODE:
        raise table.error(None, f"must be at most {MOST_GPUS_PER_NODE} GPUs, got {gpus}")
    closed = ""
    if shared:
        closed = f"sells shares of GPUs: {shared}"
    elif len(counts) > 1:
        closed = f"has GPUs of several kinds: {', '.join(counts)}"
    elif not is_ready(item):
        closed = "is not ready"
    elif spec.has("unschedulable") and spec.flag("unschedulable"):
        closed = "is cordoned"
    resource = next(iter(counts))
    kind = labels.get(PRODUCT if resource == NVIDIA else f"{resource}.product", "")
    if not kind and resource != NVIDIA:
        kind = resource.partition("/")[0] if resource.endswith("/gpu") else resource
    return KubeNode(name_of(item), labels, taints_of(spec), kind, resource, gpus, closed)


def sold_in_shares(item: Fields) -> str:
    """Return the resources through which a node offers shares of GPUs; "" if there are none."""
    status = item.object("status", None) if item.has("status") else None
    if status is None or not status.has("allocatable"):
        return ""
    table = status.object("allocatable", None)
    return ", ".join(key for key in table if is_share(key) and quantity_of(table, key))
