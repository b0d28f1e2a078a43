"""Tables of the formulation `fleet`: arrivals, and how node types can serve them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from formulations.fleet import FleetProblem
from morph_opt.core.domain import Cluster, InputError, NodeType, SideDemand
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.plan.parameters import FLEET
from morph_opt.simulation.metrics.bounds.demands import speed_curve

_Group = tuple[str, SideDemand]
"""Model and side demand that alike jobs share."""


def fleet_problem(
    workloads: Sequence[LoadedTrace],
    types: Sequence[NodeType],
    node_price: Sequence[float],
    most: int,
    delay_s: float,
    *,
    restart_s: float = 0.0,
    budget: float = math.inf,
) -> FleetProblem:
    """Build the planning MILP's instance for some workloads.

    A job class is a model with its side demand; its configurations are the fastest for every GPU
    count that fits as many nodes of a type as may be had.

    Raises
    ------
    InputError
        If a job can run on none of the types.
    """
    arrivals: dict[tuple[int, _Group, int], list[float]] = {}
    configs: dict[_Group, list[tuple[int, float, float]]] = {}
    for w, workload in enumerate(workloads):
        for job in workload.trace.jobs:
            group = job.model, job.side
            if group not in configs:
                configs[group] = _configs(workload.truth, group, types, most)
                if not configs[group]:
                    names = ", ".join(kind.name for kind in types)
                    rule = f"job {job.name} ({job.model}) can run on no {names}"
                    raise InputError(rule, field="--types")
            found = arrivals.setdefault(
                (w, group, int(job.submission_s // FLEET.bin_s)), [0.0, 0.0]
            )
            found[0] += job.iterations
            found[1] += 1.0
    groups = {group: g for g, group in enumerate(sorted(configs))}
    keys = sorted(arrivals, key=lambda key: (key[0], groups[key[1]], key[2]))
    rows = [(groups[group], *row) for group in groups for row in configs[group]]
    sizes = np.asarray([kind.gpus for kind in types], dtype=np.int64)
    return FleetProblem(
        np.asarray(node_price, dtype=np.float64),
        sizes,
        np.full(len(types), most),
        np.full(len(types), -1),
        np.asarray([key[0] for key in keys]),
        np.asarray([groups[key[1]] for key in keys]),
        np.asarray([key[2] for key in keys]),
        np.asarray([arrivals[key][0] for key in keys]),
        np.asarray([int(arrivals[key][1]) for key in keys]),
        np.asarray([row[0] for row in rows]),
        np.asarray([row[1] for row in rows]),
        np.asarray([row[2] for row in rows]),
        np.asarray([row[3] for row in rows]),
        FLEET.bin_s,
        delay_s,
        min(restart_s, delay_s),
        budget,
    )


def _configs(
    truth: SpeedModel, group: _Group, types: Sequence[NodeType], most: int
) -> list[tuple[int, float, float]]:
    """Return the configurations on the lower convex hull: type, GPUs, seconds per iteration."""
    found = []
    for k, kind in enumerate(types):
        there = Cluster.uniform(most, kind)
        gpus, pace_s = speed_curve(truth, group[0], there, group[1])
        held = (gpus * pace_s).tolist()
        kept: list[tuple[float, float, float]] = []  # seconds, GPU-seconds, GPUs
        for one in sorted(zip(pace_s.tolist(), held, gpus.tolist(), strict=True)):
            if kept and one[1] >= kept[-1][1]:
                continue  # slower and dearer
            while len(kept) > 1 and _above(kept[-2], kept[-1], one):
                kept.pop()
            kept.append(one)
        found += [(k, g, s) for s, _, g in kept]
    return found


def _above(a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]) -> bool:
    """Return whether ``b`` is on or above the line from ``a`` to ``c``, so a mix is as good."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
