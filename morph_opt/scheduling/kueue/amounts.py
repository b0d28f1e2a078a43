"""Side resources of nodes and jobs under their names in Kubernetes."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from formulations.resources import SIDES
from morph_opt.core.domain import Job, NodeType

GIB = 2.0**30

_KUBE = {
    "cpu": ("cpu", 1.0),
    "host_memory_gib": ("memory", GIB),
    "local_ssd_gib": ("ephemeral-storage", GIB),
}
"""Name in Kubernetes, and its units in one of ours, by name of the resource."""

_SIDES = [(one, *_KUBE[one.name]) for one in SIDES if one.name in _KUBE]
OF_JOBS = frozenset(name for one, name, _ in _SIDES if one.asked)
"""Resources that jobs state, by their names in Kubernetes."""


def of_node(kind: NodeType) -> dict[str, float]:
    """Return what a node has."""
    return {name: scale * getattr(kind, one.field) for one, name, scale in _SIDES}


def of_job(job: Job, gpus: float, wanted: Container[str]) -> dict[str, Any]:
    """Return what a job asks for on a node, of some resources; nothing that it asks none of.

    Parameters
    ----------
    job
        The job.
    gpus
        Its GPUs there.
    wanted
        The resources.
    """
    amounts = {
        name: scale * getattr(job, one.asked) * (1.0 if one.per_node else gpus)
        for one, name, scale in _SIDES
        if one.asked and name in wanted
    }
    return {name: amount for name, amount in amounts.items() if amount}
