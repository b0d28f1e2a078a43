"""Published facts about a cluster's jobs; ``facts.toml`` names the sources."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from formulations.arrays import Floats
from morph_opt.core.documents.packaged import packaged_toml

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
