"""Aggregate statistics of the originals, read from ``twins.toml``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from morph_opt.core.documents.source import packaged_toml
from morph_opt.core.domain import A800_NODE, ExecutionPlan, default_cluster

SIZE_CLASSES = 3
_CLUSTER_GPUS = default_cluster().gpus


def size_class(gpus: int) -> int:
    """Return 0 for jobs on one node, 1 on several, 2 on more than half of the cluster.

    A gang of the last class cannot run next to another one, so when these arrive decides much of
    the queueing.
    """
    if gpus <= A800_NODE.gpus:
        return 0
    return 1 if 2 * gpus <= _CLUSTER_GPUS else 2


@dataclass(frozen=True, slots=True)
class Cell:
    """Jobs of one model with one GPU count.

    Parameters
    ----------
    model, gpus
        Model and GPUs of every job in the cell.
    jobs
        Number of jobs.
    gpu_hours
        Their work together, at the requested GPUs and plan.
    plan
        Label of the plan that is requested.
    """

    model: str
    gpus: int
    jobs: int
    gpu_hours: float
    plan: str


@dataclass(frozen=True, slots=True)
class Phase:
    """Interval of the trace.

    Parameters
    ----------
    end_s
        Its end; it begins at the end of the previous one.
    jobs
        Jobs that arrive, by size class (`size_class`).
    bursts
        Groups of arrivals without a long gap inside.
    gpu_hours
        Work that arrives.
    """

    end_s: float
    jobs: tuple[int, ...]
    bursts: int
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class TwinStats:
    """Aggregate statistics of one original trace.

    Parameters
    ----------
    original
        Name of the original.
    cells
        Mix of models, GPU counts and plans.
    work
        Groups of models with the inverse CDF of work, GPU-hours at the levels of ``levels``.
    levels
        Probabilities, ascending from 0 to 1.
    phases
        Arrivals and work over time.
    gap_levels, gap_s
        Inverse CDF of the gaps inside a burst.
    """

    original: str
    cells: tuple[Cell, ...]
    work: tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]
    levels: tuple[float, ...]
    phases: tuple[Phase, ...]
    gap_levels: tuple[float, ...]
    gap_s: tuple[float, ...]

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return sum(cell.jobs for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Variants:
    """Differences of ``bp`` and ``mt`` from ``base``.

    Parameters
    ----------
    free_plans
        ``bp``: plans that are requested equally often, for a model or ``model/gpus``.
    free_plans_gpu_hours
        ``bp``: work of all jobs as requested.
    guaranteed_jobs, guaranteed_gpu_hours
        ``mt``: how many jobs are guaranteed, and their work.
    """

    free_plans: dict[str, tuple[ExecutionPlan, ...]]
    free_plans_gpu_hours: float
    guaranteed_jobs: int
    guaranteed_gpu_hours: float


@cache
def load_stats() -> tuple[dict[str, TwinStats], Variants]:
    """Return the statistics by original (``base``, ``naive``), and the variants of base."""
    return parse_stats(packaged_toml(__package__, "twins.toml"))


def parse_stats(document: dict[str, Any]) -> tuple[dict[str, TwinStats], Variants]:
    """Return the typed form of the parameter file."""
    stats = {
        name: TwinStats(
            original=name,
            cells=tuple(
                Cell(model, int(gpus), jobs, hours, plan)
                for model, by_gpus in table["mix"].items()
                for gpus, (jobs, hours, plan) in by_gpus.items()
            ),
            work=tuple((tuple(g["models"]), tuple(g["gpu_hours"])) for g in table["work"]),
            levels=tuple(table["levels"]),
            phases=tuple(
                Phase(end_s, tuple(jobs), bursts, hours)
                for end_s, jobs, bursts, hours in table["phases"]
            ),
            gap_levels=tuple(table["gap_levels"]),
            gap_s=tuple(table["gap_s"]),
        )
        for name, table in document["original"].items()
    }
    variants = document["variants"]
    return stats, Variants(
        {
            key: tuple(ExecutionPlan.parse(label) for label in labels)
            for key, labels in variants["free_plans"].items()
        },
        variants["free_plans_gpu_hours"],
        variants["guaranteed_jobs"],
        variants["guaranteed_gpu_hours"],
    )
