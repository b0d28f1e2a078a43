"""EasyScale's published simulator: one-at-a-time FIFO, and the greedy ``homo`` and ``heter``.

Steps of 60 s on pools of GPUs by type; a start costs 20 s once, every later change nothing. A new
job gets its last proposal; a running one asks once per type for more of that type; the highest
score goes first, one grant a job; GPUs are never taken back. Rules, and what is a quirk:
``docs/gandiva-easyscale.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from benchmarks.published.simulators.easyscale_proposals import proposals_of
from morph_opt.core.domain import InputError
from morph_opt.scheduling.policies.easyscale.grants import Grant, Holder, Proposal, grant_greedily

STEP_S, START_S = 60, 20.0
POLICIES = ("fifo", "homo", "heter")


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """A row of the trace with its speeds.

    Parameters
    ----------
    name, submit_s
        Of the job.
    workers, batch
        Workers, and samples of each per step.
    samples
        Work in all.
    step_s
        Seconds of one worker's mini-batch by type.
    preferred
        Type of a job that stays on one.
    mixed
        Whether it may run on several types.
    """

    name: str
    submit_s: float
    workers: int
    batch: int
    samples: float
    step_s: tuple[float, ...]
    preferred: int
    mixed: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """Which of the published rules, and which of their quirks.

    Parameters
    ----------
    policy
        ``fifo``: the first job alone on its gang; ``homo``: one type per job; ``heter``.
    slowest_maps
        Whether placements keep the slowest map enumerated for them, as published.
    keeps_idle
        Whether a grant keeps GPUs that its map leaves idle, as published.
    rounded_ties
        Whether scores are compared after rounding, so that rounding errors decide nothing.
    """

    policy: str
    slowest_maps: bool = True
    rounded_ties: bool = False
    keeps_idle: bool = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            known = ", ".join(POLICIES)
            raise InputError(f"unknown policy {self.policy!r}; known are {known}", field="policy")


@dataclass(slots=True)
class Live(Holder):
    """A job in the course of time."""

    job: ElasticJob = field(kw_only=True)
    start_left_s: float = START_S
    done: float = 0.0
    end_s: float | None = None

    def advance(self, now_s: float) -> None:
        """One step of the clock; the step begins at ``now_s``."""
        if self.now is None:
            return
        delay_s = min(self.start_left_s, STEP_S)
        self.start_left_s -= delay_s
        left_s = STEP_S - delay_s
        now_s += delay_s
        if left_s <= 0:
            return
        pace_s = max(t * w for t, w in zip(self.job.step_s, self.now.workers, strict=True))
        rate = self.job.batch * self.job.workers / pace_s
        needed_s = (self.job.samples - self.done) / rate
        if needed_s <= left_s:
            self.end_s, self.now = now_s + needed_s, None
            return
        self.done += rate * left_s


@dataclass(slots=True)
class ElasticRun:
    """What became of the jobs.

    Parameters
    ----------
    end_s
        Completion by name.
    avg_jct_s, makespan_s, mean_gpus
        Mean completion time; clock at the end, less a step; mean GPUs given out over the steps.
    """

    end_s: dict[str, float] = field(default_factory=dict)
    avg_jct_s: float = 0.0
    makespan_s: int = 0
    mean_gpus: float = 0.0


@lru_cache(maxsize=1024)
def _proposals(
    workers: int, speed: tuple[float, ...], pools: tuple[int, ...], slowest: bool
) -> tuple[Proposal, ...]:
    return tuple(proposals_of(workers, speed, pools, slowest=slowest))


def proposals_for(job: ElasticJob, pools: Sequence[int], rules: Rules) -> list[Proposal]:
    """Proposals of a job; of one type where it, or the policy, knows no mixed ones."""
    speed = tuple(job.step_s[-1] / one for one in job.step_s)
    found = _proposals(job.workers, speed, tuple(pools), rules.slowest_maps)
    if rules.policy == "heter" and job.mixed:
        return list(found)
    one_type = [p for p in found if all(n == 0 or k == job.preferred for k, n in enumerate(p.gpus))]
    if rules.policy == "fifo":
        one_type = [p for p in one_type if p.total == job.workers]
    if not one_type:
        raise InputError("has no proposal on its type", field=f"job {job.name}")
    return one_type


def simulate(jobs: Sequence[ElasticJob], pools: Sequence[int], rules: Rules) -> ElasticRun:
    """Run all jobs to their end.

    Raises
    ------
    InputError
        If a job has no proposal.
    """
    live = [Live(proposals_for(job, pools, rules), job=job) for job in jobs]
    clock, given = 0, []
    while any(one.end_s is None for one in live):
        for one in live:
            if one.end_s is None:
                one.advance(float(clock))
        clock += STEP_S
        active = [one for one in live if one.end_s is None and one.job.submit_s <= clock]
        if rules.policy == "fifo":
            grant_first_alone(active)
        else:
            grant_greedily(
                active,
                list(pools),
                keeps_idle=rules.keeps_idle,
                rounded_ties=rules.rounded_ties,
            )
        given.append(sum(one.now.total for one in active if one.now is not None))
    run = ElasticRun({one.job.name: float(one.end_s or 0.0) for one in live})
    run.avg_jct_s = sum(run.end_s[one.job.name] - one.job.submit_s for one in live) / len(live)
    run.makespan_s, run.mean_gpus = clock - STEP_S, sum(given) / len(given)
    return run


def grant_first_alone(active: list[Live]) -> None:
    """The first job has its gang, and nobody else anything."""
    for position, one in enumerate(active):
        alone = position == 0 and one.proposals
        one.now = (one.now or Grant.of(one.proposals[0])) if alone else None
