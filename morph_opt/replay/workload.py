"""Jobs and failures of nodes: the parts of a scenario that nobody decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from morph_opt.core.domain import SEEDS, InputError, Range
from morph_opt.core.domain.options import documented, option, require_all
from morph_opt.inputs.traces.options import TRACE_OPTIONS, TraceOptions


@documented
@dataclass(frozen=True, slots=True)
class Workload(TraceOptions):
    """Jobs that are run.

    Beside the options it records digests of the jobs (``sha256``) and of the state
    (``state_sha256``), so that a resumed run cannot get others; None before they are loaded.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    trace: str = option(
        "base",
        "jobs: a name, a log or a file (base; with --from-state nothing)",
        metavar="NAME|DATASET/NAME|FORMAT:PATH|FILE",
        common=True,
    )
    seed: int = option(
        0, "seed seed of twins, random failures and solver", range=SEEDS, metavar="N", common=True
    )
    skip_impossible: bool = option(False, "drop jobs that can never run, and say so")
    sha256: str | None = None
    state: str | None = option(
        None,
        "begin with a state as the command round reads it: its cluster, its jobs, and what "
        "a --trace has after it",
        flag="--from-state",
        metavar="FILE",
    )
    state_sha256: str | None = None

    @property
    def trace_options(self) -> dict[str, Any]:
        """Options of the trace, as `morph_opt.inputs.traces.registry.load_trace` takes it."""
        return {name: getattr(self, name) for name in TRACE_OPTIONS}


@documented
@dataclass(frozen=True, slots=True)
class Failures:
    """Failures and returns of nodes.

    ``events_sha256`` is the digest of the file of events; None before it is read. ``seed`` is that
    of the random failures.

    Raises
    ------
    InputError
        If a value is out of range, or one of mean up and down time is given without the other.
    """

    events: str | None = option(None, "node failures, drains, returns", metavar="FILE")
    events_sha256: str | None = None
    mtbf_s: float | None = option(
        None, "random failures: mean up time of a node", metavar="S", range=Range(60.0, 1e12)
    )
    mttr_s: float | None = option(
        None, "random failures: mean down time of a node", metavar="S", range=Range(1.0, 1e9)
    )
    seed: int = option(
        0,
        "seed of random failures (that of --seed)",
        flag="--failure-seed",
        range=SEEDS,
        metavar="N",
    )

    def __post_init__(self) -> None:
        require_all(self)
        if (self.mtbf_s is None) != (self.mttr_s is None):
            raise InputError("mtbf_s and mttr_s are given together", field="mtbf_s")
