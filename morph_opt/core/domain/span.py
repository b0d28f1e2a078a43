"""Span: the smallest part of the topology that contains all nodes of a placement."""

from __future__ import annotations

from enum import IntEnum


class Span(IntEnum):
    """Parts of the topology, tightest first; a wider one never has a faster network."""

    NODE = 0
    """All GPUs in one node."""
    NVLINK = 1
    """Several nodes of one NVLink domain (an NVL72 rack)."""
    LEAF = 2
    """Several nodes under one leaf switch; every multi-node placement of a flat cluster."""
    POD = 3
    """Nodes under several leaf switches."""
