"""Published facts about a cluster's jobs; ``facts.toml`` names the sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats
from morph_opt.core.documents.source import packaged_toml

RUN_EDGES_S = tuple(float(1 << k) for k in range(22))
"""Run times at which the CDFs are published."""

_SHORTEST_S = 0.5
_LEAST_SHARE = 2e-4
"""Share of GPU time assumed if a figure shows none."""


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """Published facts about the jobs of one type.

    Parameters
    ----------
    name
        For example ``"pretrain"``.
    jobs, gpu_time
        Shares of the jobs and of their GPU time, from 0 to 1.
    quartiles
        GPUs at 25, 50 and 75 percent of the jobs; () if not published.
    run_share
        Share of the type's jobs in each bin of run time, shape ``(bins,)``.
    """

    name: str
    jobs: float
    gpu_time: float
    quartiles: tuple[int, ...]
    run_share: Floats


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Published aggregates of one cluster.

    Parameters
    ----------
    what
        The cluster in words.
    gpus, days, jobs
        Size of the cluster, length of the record, GPU jobs in it.
    gpu_type
        Name in the catalog.
    mean_run_s, mean_gpus
        Published means; not drawn by, only compared.
    same_second
        Share of arrivals that share their second with another.
    edges_s
        Limits of the bins of run time, shape ``(bins + 1,)``.
    sizes
        GPUs of a job, ascending, shape ``(sizes,)``.
    size_jobs, size_time
        Shares of jobs and of GPU time by size, each shape ``(sizes,)``, from 0 to 1.
    types
        At least one.
    """

    what: str
    gpus: int
    days: float
    jobs: int
    gpu_type: str
    mean_run_s: float
    mean_gpus: float
    same_second: float
    edges_s: Floats
    sizes: npt.NDArray[np.int64]
    size_jobs: Floats
    size_time: Floats
    types: tuple[TypeFacts, ...]

    @property
    def bin_mean_s(self) -> Floats:
        """Return the mean run time of each bin if its jobs are spread evenly in the logarithm."""
        return np.asarray(np.diff(self.edges_s) / np.diff(np.log(self.edges_s)), dtype=np.float64)


@cache
def load_facts() -> dict[str, ClusterFacts]:
    """Return every cluster of ``facts.toml`` by name."""
    tables = packaged_toml(__package__, "facts.toml")
    return {name: _cluster(table) for name, table in tables.items()}


def _shares(cdf: list[float]) -> Floats:
    return np.diff(np.asarray([0.0, *cdf])) / 100.0


def _cluster(table: dict[str, Any]) -> ClusterFacts:
    size_jobs = _shares(table["size_cdf"])
    there = size_jobs > 1e-9  # a size that the figure shows no job of
    size_time = np.maximum(_shares(table["size_time_cdf"]), _LEAST_SHARE)[there]
    whole = {"all": {"jobs": 100.0, "gpu_time": 100.0, "quartiles": []} | table}
    types = tuple(_type(name, one) for name, one in table.get("types", whole).items())
    edges_s = np.asarray([_SHORTEST_S, *RUN_EDGES_S, max(table["longest_s"], 2 * RUN_EDGES_S[-1])])
    return ClusterFacts(
        table["what"],
        table["gpus"],
        float(table["days"]),
        table["jobs"],
        table["gpu_type"],
        table["mean_run_s"],
        table["mean_gpus"],
        table["same_second"],
        edges_s,
        np.asarray(table["sizes"], dtype=np.int64)[there],
        size_jobs[there],
        size_time / size_time.sum(),
        types,
    )


def _type(name: str, table: dict[str, Any]) -> TypeFacts:
    return TypeFacts(
        name,
        table["jobs"] / 100.0,
        table["gpu_time"] / 100.0,
        tuple(table["quartiles"]),
        _shares([*table["run_s_cdf"], 100.0]),
    )


_SWEEPS = 400
_LONGEST_STEP = 0.5
"""Largest step of an exponent in one sweep, so that contradictory margins do not diverge."""
_LEAST_SLOPE = 0.3
_INSIDE = 0.01
"""Distance of a quartile from the edge of its size, as a share of the type's jobs."""


@cache
def joint_table(name: str) -> Floats:
    """Return shares of the jobs, shape ``(types, bins, sizes)``; they sum up to 1.

    Parameters
    ----------
    name
        Cluster, as in ``facts.toml``.
    """
    facts = load_facts()[name]
    by_type = np.asarray([one.jobs * one.run_share for one in facts.types])
    by_type /= by_type.sum()
    mean_s = facts.bin_mean_s
    # The mean run time and the shares of GPU time by size imply the total of GPU time.
    total = float(by_type.sum(0) @ mean_s) / float((facts.size_time / facts.sizes).sum())
    share: Floats = by_type[:, :, None] * facts.size_jobs
    size_mean_s = facts.size_time * total / (facts.sizes * facts.size_jobs)
    for _ in range(_SWEEPS):
        if len(facts.types) > 1:
            share = _with_type_times(share, facts, total)
            _force_quartiles(share, facts)
        share = _tilted(share, mean_s[:, None], size_mean_s, np.log(mean_s)[:, None], (0, 1))
        share *= facts.size_jobs / share.sum((0, 1))
        share *= (by_type / np.maximum(share.sum(2), 1e-300))[:, :, None]
    return np.asarray(share / share.sum(), dtype=np.float64)


def _with_type_times(share: Floats, facts: ClusterFacts, total: float) -> Floats:
    """Return the table with GPU time by type as published."""
    times = np.asarray([one.gpu_time for one in facts.types])
    gpu_s = facts.bin_mean_s[:, None] * facts.sizes
    wanted = times / times.sum() * total / share.sum((1, 2))
    return _tilted(share, gpu_s, wanted[:, None, None], np.log(gpu_s), (1, 2))


def _tilted(
    share: Floats, value: Floats, mean: Floats, score: Floats, axes: tuple[int, int]
) -> Floats:
    """Take one Newton step of ``share * exp(factor * score)`` towards wanted means."""
    jobs = share.sum(axes, keepdims=True)
    weight = share * value
    found = weight.sum(axes, keepdims=True)
    slope = (weight * score).sum(axes, keepdims=True) / found - (share * score).sum(
        axes, keepdims=True
    ) / jobs
    factor = (np.log(mean) - np.log(found / jobs)) / np.maximum(slope, _LEAST_SLOPE)
    step = np.clip(factor, -_LONGEST_STEP, _LONGEST_STEP)
    return np.asarray(share * np.exp(step * (score - score.mean())), dtype=np.float64)


def _force_quartiles(share: Floats, facts: ClusterFacts) -> None:
    """Move jobs of each type below or above its quartiles of size, in place."""
    for number, one in enumerate(facts.types):
        for level, size in zip((0.25, 0.5, 0.75), one.quartiles, strict=True):
            for below, wanted, sign in (
                (facts.sizes <= size, level + _INSIDE, 1),
                (facts.sizes < size, level - _INSIDE, -1),
            ):
                part = share[number]
                found = float(part[:, below].sum() / part.sum())
                if sign * (wanted - found) > 0 and 0.0 < found < 1.0:
                    part[:, below] *= wanted / found
                    part[:, ~below] *= (1.0 - wanted) / (1.0 - found)
