"""Estimates of the work that jobs have left, in place of the true values.

Page: ``docs/formulations/unknown-durations.md``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import InputError, Job, JobState, Range, RoundState
from morph_opt.core.domain.job import MOST_ITERATIONS
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.limits import LimitLaw
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.sizes import Seen, SizeModel

LEARNT = "learnt"
"""Last word of ``--durations limits:...`` for guesses of run times within limits."""

SIGMAS = Range(0.0, 5.0, above=True)
"""Range of the standard deviation of log(estimate / truth)."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Knowledge of policies about the work that jobs have left.

    Parameters
    ----------
    blind
        Whether only jobs that have completed in this run are known.
    limits, law
        Whether time limits are known and nothing else; jobs without one get one by the law.
    learnt
        Whether run times are learnt from completed jobs, with limits as their upper bounds.
    sigma
        If above 0, spread of a lognormal factor by which the truth is multiplied, constant per job.
    """

    blind: bool = False
    sigma: float = 0.0
    limits: bool = False
    law: LimitLaw | None = None
    learnt: bool = False

    @classmethod
    def parse(cls, text: str) -> Durations:
        """Parse ``true``, ``blind``, ``noisy:0.7``, ``limits``, ``limits:modal:learnt`` ...

        Raises
        ------
        InputError
            If it is none of these, or the number is out of range.
        """
        word, colon, number = text.partition(":")
        if word in ("true", "blind") and not colon:
            return cls(blind=word == "blind")
        if word == "limits":
            rest, more, last = number.rpartition(":")
            learnt = last == LEARNT
            law = (rest if learnt else number) if colon and (more or not learnt) else None
            found = None if law is None else LimitLaw.parse(law)
            return cls(limits=True, law=found, learnt=learnt)
        if word != "noisy" or not colon:
            rule = "must be true, blind, limits[:LAW][:learnt] or noisy:SIGMA"
            rule += f", got {text!r}"
            raise InputError(rule, field="--durations")
        try:
            return cls(sigma=float(SIGMAS.parse(number)))
        except ValueError as error:
            raise InputError(f"the spread {error}", field="--durations") from error


class Noise:
    """Estimates of the work left with a constant lognormal error factor per job.

    Parameters
    ----------
    sigma
        Standard deviation of the factor's logarithm, whose mean is 0.
    seed
        Seed; with a job's name it determines the factor.
    """

    remembers = False

    def __init__(self, sigma: float, seed: int = 0) -> None:
        self._sigma, self._seed = sigma, seed

    def factor(self, name: str) -> float:
        """Return estimate / truth of a job."""
        drawn = hashlib.sha256(f"{self._seed}/{name}".encode()).digest()
        uniform = (int.from_bytes(drawn[:6], "big") + 0.5) / 2.0**48
        return float(np.exp(self._sigma * NormalDist().inv_cdf(uniform)))

    def observe(self, state: RoundState) -> None:
        """Learn nothing."""

    def masked(self, state: RoundState) -> RoundState:
        """Return the state with the work left of every job times its factor."""
        jobs = (_with_left(j, j.iterations_left * self.factor(j.job.name)) for j in state.jobs)
        return replace(state, jobs=tuple(jobs))


class Learnt:
    """Sizes learnt from completed jobs, in GPU-seconds at a model's most efficient configuration.

    A job's iterations are used only after it has completed. Before, only its progress and its
    request are used.

    Parameters
    ----------
    belief
        Speeds that it goes by.
    """

    remembers = True

    def __init__(self, belief: SpeedModel) -> None:
        self._builder = CandidateBuilder(belief)
        self._sizes: dict[str, tuple[float, int]] = {}  # of complete jobs, with requested GPUs
        self._active: dict[str, Job] = {}

    def observe(self, state: RoundState) -> None:
        """Count jobs gone since the last round as completed; repeated rounds count once."""
        now = {known.job.name: known.job for known in state.jobs}
        for name, job in self._active.items():
            if name not in now:
                size = job.iterations * self._efficient(job, state)[0]
                self._sizes[name] = size, job.requested_gpus
        self._active = now

    def masked(self, state: RoundState) -> RoundState:
        """Return the state with estimated iterations of every job."""
        if not state.jobs:
            return state
        pairs = [self._efficient(known.job, state) for known in state.jobs]
        gpu_s, gpus = np.asarray(pairs).reshape(len(pairs), 2).T
        done = gpu_s * [known.iterations_done for known in state.jobs]
        start = gpus * [known.restart_s * (known.running is None) for known in state.jobs]
        asked = np.log([float(known.job.requested_gpus) for known in state.jobs])
        model = SizeModel.fitted(self._seen(done, asked))
        left = model.remaining(asked, done, start) / gpu_s
        jobs = tuple(map(_with_left, state.jobs, left.tolist()))
        return replace(state, jobs=jobs)

    def _seen(self, done: Floats, asked: Floats) -> Seen:
        """Return completed jobs ordered by name, so that sums do not depend on history."""
        sizes = np.array([self._sizes[name] for name in sorted(self._sizes)]).reshape(-1, 2)
        return Seen(
            np.append(sizes[:, 0], done),
            np.append(np.log(sizes[:, 1]), asked),
            np.arange(len(sizes) + done.size) < len(sizes),
        )

    def _efficient(self, job: Job, state: RoundState) -> tuple[float, float]:
        """Return the least GPU-seconds per iteration and its GPUs; both are 1 if nothing fits."""
        mine = self._builder.all_of(job, state.cluster)
        if not mine.gpus.size:
            return 1.0, 1.0
        best = int((mine.gpus * mine.iteration_s).argmin())
        return float(mine.gpus[best] * mine.iteration_s[best]), float(mine.gpus[best])


class Limits:
    """Work left as time limits state it: what the request does in the limit, less what is done.

    Parameters
    ----------
    belief
        Speeds that it goes by.
    learns
        Whether `accuracy` is learnt; otherwise it stays 1.
    """

    def __init__(self, belief: SpeedModel, learns: bool = False) -> None:
        self._requests = GangSpeeds(belief)
        self.remembers = learns
        self._active: dict[str, tuple[JobState, float]] = {}
        self._used: list[float] = []

    def observe(self, state: RoundState) -> None:
        """Count jobs gone since the last round as completed; repeated rounds count once."""
        if not self.remembers:
            return
        now = {known.job.name: (known, state.time_s) for known in state.jobs}
        for name, (known, seen_s) in self._active.items():
            if name not in now and known.running is not None:
                # It has ended within the last round, at half of it on average.
                ran_s = known.executed_s + state.time_s - seen_s - state.interval_s / 2
                self._used.append(min(1.0, max(0.0, ran_s) / limit_of(known.job)))
        self._active = now

    def accuracy(self) -> float:
        """Return the mean share of their limits that completed jobs have used; 1 without any."""
        return float(np.mean(self._used)) if self._used else 1.0

    def masked(self, state: RoundState) -> RoundState:
        """Return the state with every job's iterations computed from its limit.

        A job that has done more than that is taken to end within a round.
        """
        self._requests.use(state.cluster)
        return replace(state, jobs=tuple(self._of(known, state) for known in state.jobs))

    def _of(self, known: JobState, state: RoundState) -> JobState:
        pace_s = self._requests.iteration_s(known.job)
        done = known.iterations_done
        left = limit_of(known.job) / pace_s - done
        return _with_left(known, max(left, state.interval_s / pace_s))


class Bounded(Learnt):
    """Sizes learnt from completed jobs, with the time limit as upper bound of each.

    Parameters
    ----------
    belief
        Speeds that it goes by.
    """

    def __init__(self, belief: SpeedModel) -> None:
        super().__init__(belief)
        self._limits = Limits(belief)

    def masked(self, state: RoundState) -> RoundState:
        """Return the state with the smaller of guess and limit as iterations of every job."""
        most = self._limits.masked(state)
        jobs = (
            guess if guess.job.iterations <= limit.job.iterations else limit
            for guess, limit in zip(super().masked(state).jobs, most.jobs, strict=True)
        )
        return replace(state, jobs=tuple(jobs))


def limit_of(job: Job) -> float:
    """Return the time limit of a job, in seconds.

    Raises
    ------
    InputError
        If it has none.
    """
    if job.time_limit_s is None:
        rule = "has no time_limit_s; for a trace, --durations limits:modal draws one"
        raise InputError(rule, field=f"job {job.name}")
    return job.time_limit_s


def _with_left(known: JobState, left: float) -> JobState:
    total = int(np.clip(np.ceil(known.iterations_done + left), 1, MOST_ITERATIONS))
    return replace(known, job=replace(known.job, iterations=total))


class EstimatingPolicy(Policy):
    """Policy that sees estimates instead of the true iterations of jobs.

    What it remembers is a function of the states that it was shown.

    Parameters
    ----------
    policy
        Policy that decides on the estimates.
    estimates
        Source of the estimates.
    """

    def __init__(self, policy: Policy, estimates: Noise | Learnt | Limits) -> None:
        self.name = policy.name
        self._policy = policy
        self._estimates = estimates

    @property
    def remembers(self) -> bool:
        """Whether decisions depend on more than the state."""
        return self._estimates.remembers or self._policy.remembers

    def notes(self) -> tuple[str, ...]:
        """Return the lines of the policy that decides."""
        return self._policy.notes()

    def begins_at(self, clock_s: float) -> None:
        """Pass on the instant of second 0."""
        self._policy.begins_at(clock_s)

    def observe(self, state: RoundState) -> None:
        """See a round that is decided elsewhere."""
        self._estimates.observe(state)
        self._policy.observe(self._estimates.masked(state))

    def decide(self, state: RoundState) -> Decision:
        """Observe, then decide on estimates."""
        self._estimates.observe(state)
        return self._policy.decide(self._estimates.masked(state))
