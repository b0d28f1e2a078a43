"""Comparison of recorded and simulated waits, and the verdict on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan

import numpy as np
import numpy.typing as npt

from formulations.parameters import Params
from morph_opt.core.domain import Job
from morph_opt.hindcast.recorded import RecordedWaits
from morph_opt.hindcast.shaken import Shaken
from morph_opt.scheduling.kueue.clusters import KueueSite
from morph_opt.simulation.runs.slo import PER_JOB, Slo

SUMMARISED = {
    "avg_jct_s": "avg jct_s",
    "median_jct_s": "median jct_s",
    "p99_jct_s": "p99 jct_s",
    "makespan_s": "makespan_s",
    "avg_queue_s": "avg queued_s",
}
"""Figures of ``summary.json`` whose spread is stated, as `Slo` has them."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class VerdictParams(Params):
    """Verdict on a log (docs/batch-schedulers.md, "Hindcast")."""

    close: float = 0.10
    """Relative difference of the mean that is reproduced even outside the spread."""

    few_jobs: int = 10
    """Number of jobs below which a class is not judged."""


VERDICT = VerdictParams()


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure of the recorded waits and of each replay, in seconds.

    Parameters
    ----------
    name
        Name for the user.
    jobs
        Number of jobs that it is of.
    recorded
        Its value in the log; NaN if the log does not have it.
    simulated
        Its value in each replay.
    """

    name: str
    jobs: int
    recorded: float
    simulated: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the replays."""
        return float(np.mean(self.simulated))

    @property
    def spread(self) -> tuple[float, float]:
        """Spread of the replays: 2.5 and 97.5 %."""
        low, high = np.percentile(self.simulated, [2.5, 97.5])
        return float(low), float(high)

    @property
    def off(self) -> float:
        """Relative difference of the mean over the replays; NaN if the recorded value is 0."""
        return self.relative(self.mean)

    @property
    def inside(self) -> bool:
        """Whether the recorded value is within the spread."""
        low, high = self.spread
        return low <= self.recorded <= high

    @property
    def few(self) -> bool:
        """Whether it covers too few jobs to be judged."""
        return self.jobs < VERDICT.few_jobs

    @property
    def reproduced(self) -> bool:
        """Whether the recorded value is within the spread, or close."""
        return self.inside or abs(self.off) <= VERDICT.close

    def relative(self, value: float) -> float:
        """Return the relative difference of a value from the recorded one."""
        return value / self.recorded - 1.0 if self.recorded else nan


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement on how well a log is reproduced.

    Parameters
    ----------
    figures
        Mean, 95th percentile and maximum of the waits.
    classes
        Mean waits by class, of each kind of class.
    starts_s
        Median and 95th percentile of the absolute difference of a start, over jobs and replays.
    phases_s
        Instants of the scheduler's first pass, by replay.
    notes
        Sentences on rows read, left out and assumed.
    not_followed
        Settings of the site that the model does not follow.
    cannot_claim
        Facts that neither log nor policy can show.
    spreads
        Spread of further figures over the replays, by their keys of ``summary.json``.
    evictions
        Number of evictions by reason, of a Kueue site.
    """

    figures: tuple[Figure, Figure, Figure]
    classes: Mapping[str, tuple[Figure, ...]]
    starts_s: tuple[float, float]
    phases_s: tuple[float, ...]
    notes: tuple[str, ...]
    not_followed: tuple[str, ...]
    cannot_claim: tuple[str, ...]
    spreads: Mapping[str, tuple[float, float]]
    evictions: tuple[Figure, ...] = ()

    @property
    def reproduced(self) -> bool:
        """Whether the mean wait is reproduced."""
        return self.figures[0].reproduced


def state(recorded: RecordedWaits, shaken: Shaken) -> Statement:
    """Compare the recorded waits with the waits of shaken replays."""
    jobs = [job for job in shaken.jobs if job.name in recorded.waits_s]
    real = np.array([recorded.waits_s[job.name] for job in jobs])
    mine = np.array([[waits[job.name] for job in jobs] for waits in shaken.waits_s])
    after = np.array([[offs[job.name] for job in jobs] for offs in shaken.offs_s])
    off = np.abs(after - real)
    measures: dict[str, Callable[[Floats], Floats]] = {
        "mean": lambda waits: waits.mean(axis=-1),
        "p95": lambda waits: np.asarray(np.percentile(waits, 95.0, axis=-1)),
        "max": lambda waits: waits.max(axis=-1),
    }
    mean, p95, most = (
        Figure(name, len(jobs), float(of(real)), tuple(of(mine).tolist()))
        for name, of in measures.items()
    )
    return Statement(
        (mean, p95, most),
        _classes(jobs, real, mine, _KUEUE if shaken.kueue is not None else _SLURM),
        (float(np.median(off)), float(np.percentile(off, 95.0))),
        shaken.phases_s,
        recorded.notes,
        tuple(site.unmodelled()) if (site := shaken.site or shaken.kueue) is not None else (),
        tuple(_cannot_claim(shaken)),
        {
            key: found.spread
            for key, text in SUMMARISED.items()
            if (found := figure_of(shaken, Slo.parse(f"{text} <= 1e300"))) is not None
        },
        tuple(_evictions(recorded, shaken)),
    )


def _evictions(recorded: RecordedWaits, shaken: Shaken) -> Iterator[Figure]:
    """Yield the number of evictions by reason, the most frequent first."""
    if shaken.kueue is None:
        return
    every = Counter(recorded.evictions)
    for one in shaken.evictions:
        every.update(one)
    for reason, _ in sorted(every.items(), key=lambda item: (-item[1], item[0])):
        mine = tuple(float(one.get(reason, 0)) for one in shaken.evictions)
        yield Figure(reason, len(shaken.jobs), float(recorded.evictions.get(reason, 0)), mine)


def figure_of(shaken: Shaken, metric: Slo) -> Figure | None:
    """Return a figure of all jobs in each replay; None if rows of jobs do not have it.

    Parameters
    ----------
    shaken
        The replays.
    metric
        Figure; its target does not count.
    """
    if metric.metric == "makespan_s":
        values = [
            max(row.finish_s for row in rows) - min(row.submission_s for row in rows)
            for rows in shaken.rows
        ]
    elif metric.metric in PER_JOB:
        values = [
            metric.statistic_of(np.array([getattr(row, metric.metric) for row in rows]))
            for rows in shaken.rows
        ]
    else:
        return None
    name = f"{metric.statistic} {metric.metric}".strip()
    return Figure(name, len(shaken.jobs), nan, tuple(values)) if np.isfinite(values).all() else None


_Kinds = Mapping[str, Callable[[Job], str]]
_SLURM: _Kinds = {
    "GPUs": lambda job: str(job.requested_gpus),
    "partition": lambda job: job.partition,
    "user": lambda job: job.user,
}
_KUEUE: _Kinds = {
    "GPUs": lambda job: str(job.requested_gpus),
    "cluster queue": lambda job: job.tenant,
    "priority": lambda job: f"{job.priority:g}",
}
"""Kinds of classes of jobs, by what the scheduler of a site goes by."""


def _classes(
    jobs: Sequence[Job], real: Floats, mine: Floats, kinds: _Kinds
) -> dict[str, tuple[Figure, ...]]:
    """Return mean waits by class, the classes with the most jobs first."""
    found = {}
    for kind, of in kinds.items():
        members: dict[str, list[int]] = defaultdict(list)
        for at, job in enumerate(jobs):
            members[of(job) or "-"].append(at)
        if len(members) > 1:
            ordered = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
            found[kind] = tuple(
                Figure(
                    name, len(at), float(real[at].mean()), tuple(mine[:, at].mean(axis=1).tolist())
                )
                for name, at in ordered
            )
    return found


_COLD = "a cold start: what ran or waited before the first row is not there, unless the log has it"


def _cannot_claim(shaken: Shaken) -> Iterator[str]:
    """Yield what the log lacks, and what follows for the statement."""
    jobs = shaken.jobs
    if shaken.kueue is not None:
        yield from _not_of_kueue(shaken.kueue)
        return
    without = sum(job.time_limit_s is None for job in jobs)
    if without:
        by = "DefaultTime, MaxTime or none" if shaken.site is not None else "none"
        yield f"order by limits: {without} of {len(jobs)} jobs have no limit and go by {by}"
    if shaken.knows_truth and shaken.site is None:
        yield "what the scheduler knew: if the policy looks at run times, it sees the true ones"
    if shaken.site is None:
        yield "settings of the site: the policy reads no slurm.conf, and logs have no priorities"
    else:
        if not any(job.partition for job in jobs):
            yield "partitions: the log names none; all jobs are in the default one"
        elif not shaken.site.names_partitions:
            yield "partitions: no slurm.conf names them; all jobs share all nodes"
        if shaken.site.weights is not None:
            if not any(job.user for job in jobs):
                yield "fair share by user: the log names no users"
            if not shaken.site.files.shares:
                yield "fair share: without a file of shares all accounts and users have equal ones"
            yield "fair share before the log: usage begins at 0"
    yield _COLD
    yield "holds, dependencies, reservations, outages, limits of QOS, priorities changed by hand"


def _not_of_kueue(site: KueueSite) -> Iterator[str]:
    """Yield what a log of Kueue lacks, and what follows for the statement."""
    if site.files is None:
        yield "quotas: the policy has no files, so all jobs share one queue over all GPUs"
    elif not site.files.workloads:
        yield "pods, topologies, memory: no file has Workload objects, so a job has a pod per node"
    yield "instants of evictions: a workload states its last admission and the seconds that it ran"
    yield _COLD
    yield "pods outside Kueue, outages, quotas, queues and priorities that were changed by hand"


def finite(value: float) -> float | None:
    """Return a number for JSON; None for NaN."""
    return value if isfinite(value) else None
