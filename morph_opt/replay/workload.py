"""Which jobs are run: the part of a scenario that a trace is loaded from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from morph_opt.domain import SEEDS

_TOLD = (
    "jobs", "gpus", "days", "jobs_as", "scaling", "mix", "gpu_types", "guarantee", "run_s",
    "timezone", "procs_per_gpu", "columns", "gpu_resource", "gpu_shares", "only",
)  # fmt: skip
"""Fields of a workload that the format of its trace has to understand."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Which jobs are run.

    Parameters
    ----------
    trace
        Name, ``DATASET/NAME`` or file; see `morph_opt.traces.registry.load_trace`.
    seed
        Member of the family, of a generated trace.
    skip_impossible
        Whether jobs that can never run are dropped instead of refused.
    jobs, gpus, days
        Size of a cluster twin; None for its own, and for every other trace.
    jobs_as, scaling, mix, gpu_types, guarantee, run_s
        How the rows of a log become jobs (`morph_opt.traces.logs.jobs.Mapped`); None as there.
    timezone, procs_per_gpu, columns, gpu_resource, gpu_shares, only
        How a log is read (`morph_opt.traces.logs.reading.row.Reading`); None as there.
    sha256
        Digest of the jobs, so that a resumed run cannot get another trace; None before loading.
    state, state_sha256
        File of a round's state (``docs/round.md``) that the replay begins with, and its digest; the
        trace then has what is submitted later, ``state`` for nothing. None: it begins at 0.
    """

    trace: str = "base"
    seed: int = 0
    skip_impossible: bool = False
    jobs: int | None = None
    gpus: int | None = None
    days: float | None = None
    jobs_as: str | None = None
    scaling: str | None = None
    mix: Mapping[str, float] | None = None
    gpu_types: str | None = None
    guarantee: str | None = None
    run_s: Mapping[str, float] | None = None
    timezone: str | None = None
    procs_per_gpu: int | None = None
    columns: str | None = None
    gpu_resource: str | None = None
    gpu_shares: str | None = None
    only: str | None = None
    sha256: str | None = None
    state: str | None = None
    state_sha256: str | None = None

    def __post_init__(self) -> None:
        SEEDS.require("seed", self.seed)

    @property
    def trace_options(self) -> dict[str, Any]:
        """What the trace is told, as `morph_opt.traces.registry.load_trace` takes it."""
        return {name: getattr(self, name) for name in _TOLD}
