"""Options of traces: reading of logs, jobs from rows, sizes of twins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from morph_opt.core.domain import Range
from morph_opt.core.domain.options import asked, documented, option, require_all

NODE_GPUS = 8
"""GPUs of a node of a cluster twin."""
MOST_JOBS = 1_000_000
"""Most jobs of a cluster twin."""


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOptions:
    """Options of how a log is read; None for the default of its format.

    Which format knows which: ``options`` of `morph_opt.inputs.traces.logs.reading.reader.Reader`.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    timezone: str | None = option(
        None, "zone of times that name none: an IANA name or an offset", metavar="ZONE"
    )
    procs_per_gpu: int | None = option(
        None,
        "processors per GPU, if a log counts processors",
        metavar="N",
        range=Range(1, 10**6, whole=True),
    )
    columns: str | None = option(
        None,
        "meaning of a table's columns (guessed); layout of a file of sacct without a header",
        metavar="WHAT=COLUMN,...|xdmod",
    )
    gpu_resource: str | None = option(None, "name of a whole GPU in Kubernetes", metavar="NAME")
    gpu_shares: str | None = option(
        None, "treatment of jobs with a share of a GPU (drop)", choices=("drop", "round-up")
    )
    malformed: str | None = option(
        None,
        "treatment of rows that cannot be read, such as a last line that is cut (refuse)",
        choices=("refuse", "drop"),
    )
    only: str | None = option(None, "take only jobs with this outcome", choices=("completed",))

    def __post_init__(self) -> None:
        require_all(self)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions(ReadingOptions):
    """Options of how the rows of a log become jobs; page: ``docs/logs.md``."""

    jobs_as: str | None = option(
        None,
        "speeds of jobs: on exactly the GPUs that they had (rigid); on others by a stated curve "
        "through that point (anchored); as built-in models of a stated mix (sampled)",
        choices=("rigid", "anchored", "sampled"),
    )
    scaling: str | None = option(
        None, "curve of anchored jobs (linear)", metavar="linear|amdahl:P|MODEL"
    )
    mix: Mapping[str, float] | None = option(
        None, "shares of the models of sampled jobs (equal)", metavar="MODEL=SHARE,..."
    )
    gpu_types: str | None = option(
        None,
        "GPU types of a job: those that the log names, or any (keep)",
        choices=("keep", "ignore"),
    )
    guarantee: str | None = option(None, "kind of jobs that have a guarantee", metavar="KIND")
    run_s: Mapping[str, float] | None = option(
        None, "run times by kind of job, for logs without run times", metavar="KIND=S,..."
    )


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions(LogOptions):
    """Options of a trace; None for its own default. Each trace refuses the others'."""

    jobs: int | None = option(
        None,
        "number of jobs of a cluster twin (as many as load the GPUs as published)",
        metavar="N",
        range=Range(1, MOST_JOBS, whole=True),
    )
    gpus: int | None = option(
        None,
        "GPUs that a cluster twin loads, and runs on unless you name a cluster (2048)",
        metavar="N",
        range=Range(NODE_GPUS, 800_000, whole=True),
    )
    days: float | None = option(
        None,
        "days over which jobs of a cluster twin are submitted (7)",
        metavar="N",
        range=Range(0.0, 3660.0, above=True),
    )


LOG_OPTIONS = asked(LogOptions)
"""Options of ``--trace FORMAT:PATH`` by name."""

TRACE_OPTIONS = asked(TraceOptions)

TWIN_OPTIONS = {name: known for name, known in TRACE_OPTIONS.items() if name not in LOG_OPTIONS}
"""Options of a cluster twin by name."""
