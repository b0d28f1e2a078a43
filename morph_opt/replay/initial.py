"""Jobs and checks of a replay that begins with a state."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from morph_opt.core.documents import JSON_BYTES, parse_json, read_bytes
from morph_opt.core.documents.source import read_text
from morph_opt.core.domain import Cluster, InputError, Job, JobState, RoundState, Trace
from morph_opt.core.domain.trace import Search
from morph_opt.simulation.engine.config import ReplayConfig


def require_initial(
    state: RoundState, trace: Trace, cluster: Cluster, config: ReplayConfig
) -> None:
    """Refuse a state that is not one of this trace on this cluster.

    Raises
    ------
    InputError
        If the cluster does not begin with the state's nodes, a job is of only one of the two or
        differs between them, or the horizon is not after the state.
    """
    names = [node.name for node in state.cluster.nodes]
    sizes = [node.type.gpus for node in state.cluster.nodes]
    here = cluster.nodes[: len(names)]
    if [node.name for node in here] != names or [node.type.gpus for node in here] != sizes:
        raise InputError(f"cluster {cluster.name!r} does not begin with its nodes", field="state")
    known = {one.job.name: one.job for one in state.jobs}
    there = {job.name: job for job in trace.jobs if job.submission_s <= state.time_s}
    for name in (*known, *there):
        if name not in there or name not in known:
            where = "not submitted by then in the trace" if name in known else "not in the state"
            raise InputError(f"job {name} is {where}", field="state")
        if known[name] != there[name]:
            raise InputError(f"job {name} differs from that of the trace", field="state")
    if config.until_s is not None and config.until_s <= state.time_s:
        rule = f"must be after the state, which is of {state.time_s:g} s"
        raise InputError(f"{rule}, got {config.until_s:g}", field="until_s")


def continued(
    state: RoundState,
    later: Sequence[Job],
    name: str,
    description: str = "",
    searches: Sequence[Search] = (),
) -> Trace:
    """Return the state's jobs with later jobs of a trace, and its searches.

    A job of the trace that is submitted before and not in the state is complete, or cancelled; so
    a search that has been cut has nobody left to cut, and one that has not been cuts whom it would.

    Raises
    ------
    InputError
        If there is none at all, or a job of the state is another one in the trace.
    """
    known = {one.job.name: one.job for one in state.jobs}
    for job in later:
        if job.name in known and known[job.name] != job:
            raise InputError(
                f"job {job.name} of the state is another one in the trace", field="state"
            )
    arrivals = [job for job in later if job.submission_s > state.time_s]
    if not known and not arrivals:
        raise InputError("the state has no jobs, and no job arrives after it", field="state")
    there = {*known, *(job.name for job in arrivals)}
    left = []
    for search in searches:
        ranked = tuple(trial for trial in search.ranked if trial in there)
        if ranked:
            left.append(Search(search.name, ranked, len(ranked) - len(there & {*search.cut})))
    return Trace.of(name, (*known.values(), *arrivals), description, left)


def on_cluster(state: RoundState, cluster: Cluster, jobs: Sequence[Job]) -> RoundState:
    """Return the state of these jobs on a cluster that begins with its nodes."""
    names = {job.name for job in jobs}
    kept = tuple(one for one in state.jobs if one.job.name in names)
    return replace(state, cluster=cluster, jobs=kept)


def with_prices(state: RoundState, config: ReplayConfig) -> RoundState:
    """Return the state with the engine's prices of starts for jobs without their own.

    They are at most what a restart of the job costs.
    """
    if config.resume_s is None and config.migrate_s is None:
        return state

    def priced(known: JobState) -> JobState:
        if known.resume_s is not None or known.migrate_s is not None:
            return known
        migrate_s, resume_s = (
            None if price is None else min(price, known.restart_s)
            for price in (config.migrate_s, config.resume_s)
        )
        return replace(known, migrate_s=migrate_s, resume_s=resume_s)

    return replace(state, jobs=tuple(map(priced, state.jobs)))


def state_digest(path: str) -> str:
    """Return the SHA-256 of a state's file and of the file of speeds that it names."""
    digest = hashlib.sha256(read_bytes(Path(path), JSON_BYTES))
    speeds = parse_json(read_text(Path(path), JSON_BYTES), path).get("speeds")
    if isinstance(speeds, dict) and isinstance(speeds.get("file"), str):
        digest.update(read_bytes(Path(path).parent / speeds["file"], JSON_BYTES))
    return digest.hexdigest()
