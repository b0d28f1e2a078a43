"""A prepared run, run: what it writes next to its log, and what its summary says of it."""

from __future__ import annotations

import platform
import resource
import time
from collections.abc import Mapping
from pathlib import Path

from morph_opt.metrics.history import Scalar
from morph_opt.replay.api import ReplayResult, RunExtras, replay
from morph_opt.replay.drive import Progress
from morph_opt.replay.setup import Prepared, versions_json
from morph_opt.runs.slo import Slo
from morph_opt.runs.write import CONFIG, VERSIONS

LOG_ACCOUNT = "log.json"
"""File of a run folder: the report on the log that its jobs are of."""


def run_prepared(
    prepared: Prepared,
    out: Path | None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    began: float | None = None,
    slo: Slo | None = None,
) -> ReplayResult:
    """Replay what was prepared.

    Parameters
    ----------
    prepared
        Everything loaded and checked.
    out, resume, progress
        See `morph_opt.replay.api.replay`.
    began
        When the command began, by `time.perf_counter`; None for now.
    slo
        See `morph_opt.replay.api.RunExtras`.

    Raises
    ------
    InputError, AllocationError, MissedError
        See `morph_opt.replay.api.replay`.
    """
    start = time.perf_counter() if began is None else began
    scenario = prepared.scenario

    def at_end() -> Mapping[str, Scalar]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unit = 1024.0 if platform.system() == "Darwin" else 1.0  # bytes there, KiB elsewhere
        return {"wall_s": time.perf_counter() - start, "peak_rss_mib": peak / unit / 1024.0}

    return replay(
        prepared.trace,
        scenario.cluster,
        prepared.policy,
        prepared.truth,
        scenario.engine,
        node_events=prepared.node_events(),
        out=out,
        resume=resume,
        initial=prepared.initial,
        extras=RunExtras(
            files={CONFIG: scenario.to_toml(), VERSIONS: versions_json(), **_account(prepared)},
            labels=_labels(prepared),
            at_end=at_end,
            progress=progress,
            digest=scenario.digest,
            packing=scenario.scheduler.packing,
            slo=slo,
        ),
    )


def _account(prepared: Prepared) -> dict[str, str]:
    """What became of a log, for the run folder."""
    return {} if prepared.account is None else {LOG_ACCOUNT: prepared.account.as_json()}


def _labels(prepared: Prepared) -> dict[str, Scalar]:
    scenario, scheduler = prepared.scenario, prepared.scenario.scheduler
    lines = {} if prepared.account is None else prepared.account.lines()
    solves = scheduler.policy == "milp"
    return {
        "objective": scheduler.objective if solves else None,
        "solver": scheduler.solver if solves else None,
        "cluster": scenario.cluster.name,
        "belief": scheduler.belief + ("+online" if scheduler.online_fit else ""),
        "restart_s": scenario.engine.restart_s,
        "seed": scenario.workload.seed,
        "trace_kind": prepared.kind,
        "trace_notice": prepared.notice,
        "skipped_jobs": len(prepared.skipped),
        **{f"trace_{name}": line for name, line in lines.items()},
    }
