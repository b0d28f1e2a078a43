"""Replays of one log with shaken instants.

A schedule is chaotic: a second decides which job starts, and that which starts next. One replay is
therefore one draw; the spread of several shows what a difference can mean (input shaking, Tsafrir
et al., 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from morph_opt.core.domain import Cluster, InputError, Job
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.traces.format import LoadedTrace
from morph_opt.replay.prepare import Prepared, prepare
from morph_opt.replay.run import replay
from morph_opt.replay.scenario import Scenario, Workload
from morph_opt.scheduling.kueue.clusters import KueueSite
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.kueue import KueuePolicy
from morph_opt.scheduling.policies.options import Scheduler
from morph_opt.scheduling.policies.slurm import Site, SlurmPolicy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.runs.jobs import JobRow


@dataclass(frozen=True, slots=True)
class Shaking:
    """Ranges from which changes of instants are drawn uniformly.

    Parameters
    ----------
    submission_s, run_s
        Most seconds by which a submission and a run time change.
    cycle_s
        Most seconds that a cycle of backfill takes.
    """

    submission_s: float = 1.0
    run_s: float = 2.0
    cycle_s: float = 1.0

    def jobs(
        self, jobs: tuple[Job, ...], iteration_s: Callable[[Job], float], draw: np.random.Generator
    ) -> list[Job]:
        """Return the jobs with shaken instants, by submission; run times stay within limits.

        All submissions are later by ``submission_s``, so that none is before the begin.
        """
        found = []
        for job in jobs:
            early_s, longer_s = draw.uniform(-1.0, 1.0, 2) * (self.submission_s, self.run_s)
            step_s, late_s = iteration_s(job), job.submission_s + self.submission_s + early_s
            run_s, limit_s = job.iterations * step_s, job.time_limit_s or np.inf
            iterations = job.iterations
            if run_s < limit_s:  # the others were ended by their limits
                iterations = max(1, round(min(run_s + longer_s, limit_s) / step_s))
            due_s = None if job.deadline_s is None else job.deadline_s + 2.0 * self.submission_s
            found.append(
                replace(job, submission_s=float(late_s), iterations=iterations, deadline_s=due_s)
            )
        return sorted(found, key=lambda job: job.submission_s)


@dataclass(frozen=True, slots=True)
class Shaken:
    """Shaken replays of a log.

    Parameters
    ----------
    jobs
        The jobs as the log has them.
    waits_s, offs_s
        By replay: the wait of each job, and how much later it started after its submission in the
        log, counted on the log's clock.
    phases_s
        By replay: instant of the scheduler's first pass; none if the policy has no passes.
    rows
        By replay: the rows of ``jobs.csv``.
    site
        Settings of the site; None if the policy is none of a Slurm site.
    kueue
        Objects of the site; None if the policy is none of a Kueue site.
    evictions
        By replay: number of evictions by reason, of a Kueue site.
    knows_truth
        Whether the policy knows true run times.
    """

    jobs: tuple[Job, ...]
    waits_s: tuple[Mapping[str, float], ...]
    offs_s: tuple[Mapping[str, float], ...]
    rows: tuple[tuple[JobRow, ...], ...]
    phases_s: tuple[float, ...] = ()
    site: Site | None = None
    kueue: KueueSite | None = None
    evictions: tuple[Mapping[str, int], ...] = ()
    knows_truth: bool = False


@dataclass(slots=True)
class _Draws:
    waits_s: list[dict[str, float]] = field(default_factory=list)
    offs_s: list[dict[str, float]] = field(default_factory=list)
    rows: list[tuple[JobRow, ...]] = field(default_factory=list)
    phases_s: list[float] = field(default_factory=list)
    evictions: list[Mapping[str, int]] = field(default_factory=list)


def prepared_site(
    loaded: LoadedTrace, cluster: Cluster, scheduler: Scheduler, *, skip_impossible: bool = False
) -> Prepared:
    """Return the scenario of a log on its own cluster, in rounds that begin at events.

    Parameters
    ----------
    loaded
        Jobs of the log.
    cluster, scheduler
        Nodes and scheduler of the site.
    skip_impossible
        Whether jobs that can never run there are dropped.

    Raises
    ------
    InputError
        As `morph_opt.replay.prepare.prepare`.
    """
    engine = ReplayConfig(rounds="events")
    if str(scheduler.policy).partition(":")[0] == KueuePolicy.name:
        # Run times of its log contain the start-ups after evictions.
        engine = replace(engine, restart_s=0.0)
    return prepare(
        Scenario(
            loaded,
            cluster,
            workload=Workload(skip_impossible=skip_impossible),
            scheduler=scheduler,
            engine=engine,
        )
    )


def site_of(prepared: Prepared) -> Site | None:
    """Return the settings of the Slurm site that a policy follows; None for other policies."""
    return prepared.policy.site if isinstance(prepared.policy, SlurmPolicy) else None


def shaken_replays(
    prepared: Prepared,
    count: int,
    seed: int,
    progress: Callable[[int], None] = lambda _: None,
    shaking: Shaking | None = None,
) -> Shaken:
    """Replay a scenario several times with shaken instants.

    Parameters
    ----------
    prepared
        The scenario.
    count, seed
        Number of replays; replay k draws by the pair of seed and k.
    progress
        Called with the number of replays done.
    shaking
        Ranges; None for the usual ones.

    Raises
    ------
    InputError
        If a job never starts.
    """
    shaking = shaking or Shaking()
    scenario, jobs = prepared.scenario, prepared.trace.jobs
    requests = GangSpeeds.on(scenario.cluster, prepared.truth)
    found, site = _Draws(), None
    for number in range(count):
        draw = np.random.default_rng([seed, number])
        policy: Policy = prepared.fresh_policy()
        if isinstance(policy, SlurmPolicy):
            site = policy.site
            found.phases_s.append(-draw.uniform(0.0, _longest_s(site)))
            policy = policy.phased(found.phases_s[-1], draw.uniform(0.0, shaking.cycle_s))
        shaken = shaking.jobs(jobs, requests.iteration_s, draw)
        trace = prepared.trace.of_jobs(shaken)
        result = replay(trace, scenario.cluster, policy, prepared.truth, scenario.engine)
        if isinstance(policy, KueuePolicy):  # whom it preempts waits again
            waits_s = {row.job: row.queued_s for row in result.jobs}
            found.evictions.append(dict(policy.evictions))
        else:
            waits_s = {row.job: row.waiting_s for row in result.jobs}
        lost = [name for name, wait_s in waits_s.items() if not wait_s >= 0.0]
        if lost:
            rule = f"{policy.name} never starts it (and {len(lost) - 1} others): no wait to compare"
            raise InputError(rule, field=f"job {lost[0]}")
        later_s = {job.name: job.submission_s - shaking.submission_s for job in shaken}
        found.waits_s.append(waits_s)
        found.rows.append(result.jobs)
        found.offs_s.append(
            {job.name: waits_s[job.name] + later_s[job.name] - job.submission_s for job in jobs}
        )
        progress(number + 1)
    knows = scenario.scheduler.durations == "true" and not prepared.decider.rule.limits
    return Shaken(
        jobs,
        tuple(found.waits_s),
        tuple(found.offs_s),
        tuple(found.rows),
        tuple(found.phases_s),
        site,
        prepared.policy.site if isinstance(prepared.policy, KueuePolicy) else None,
        tuple(found.evictions),
        knows,
    )


def _longest_s(site: Site) -> float:
    """Return the longest interval between two passes of one kind: phases repeat after it."""
    timing, weights = site.timing, site.weights
    longest_s = max(60.0, timing.every_s, timing.interval_s)
    return longest_s if weights is None else max(longest_s, weights.period_s)
