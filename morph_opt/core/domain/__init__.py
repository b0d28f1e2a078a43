"""Typed, frozen, validated values; everything else in the engine is a function between them."""

from morph_opt.core.domain.catalog import A800_NODE, GPU_TYPES, default_cluster
from morph_opt.core.domain.cluster import Cluster, GpuType, Leaf, Node, NodeType, Span
from morph_opt.core.domain.errors import InputError
from morph_opt.core.domain.job import Job
from morph_opt.core.domain.placement import Allocation, Assignment, Placement, SideDemand, gpus_held
from morph_opt.core.domain.plan import ExecutionPlan, PlanFamily
from morph_opt.core.domain.ranges import SEEDS, Range
from morph_opt.core.domain.round_state import JobState, RoundState
from morph_opt.core.domain.shape import Shape, partitions
from morph_opt.core.domain.trace import Trace

__all__ = [
    "A800_NODE",
    "GPU_TYPES",
    "SEEDS",
    "Allocation",
    "Assignment",
    "Cluster",
    "ExecutionPlan",
    "GpuType",
    "InputError",
    "Job",
    "JobState",
    "Leaf",
    "Node",
    "NodeType",
    "Placement",
    "PlanFamily",
    "Range",
    "RoundState",
    "Shape",
    "SideDemand",
    "Span",
    "Trace",
    "default_cluster",
    "gpus_held",
    "partitions",
]
