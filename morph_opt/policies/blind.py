"""What policies are told of the work that jobs have left: guesses, or estimates that are wrong.

Page: ``docs/formulations/unknown-durations.md``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Protocol

import numpy as np

from morph_opt.candidates.table import CandidateBuilder
from morph_opt.domain import InputError, Job, JobState, Range, RoundState
from morph_opt.domain.job import MOST_ITERATIONS
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision, Policy
from morph_opt.policies.sizes import LogNormal

SIGMAS = Range(0.0, 5.0, above=True)
"""Of the logarithm of an estimate over the truth."""


@dataclass(frozen=True, slots=True)
class Durations:
    """What policies are told of the work that jobs have left.

    Parameters
    ----------
    blind
        Nothing but what has completed in this run.
    sigma
        Above 0: the truth times a lognormal factor of this spread, the same for all of a job's
        life.
    """

    blind: bool = False
    sigma: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Durations:
        """From ``true``, ``blind`` or ``noisy:0.7``.

        Raises
        ------
        InputError
            If it is none of these, or the number is out of range.
        """
        word, colon, number = text.partition(":")
        if word in ("true", "blind") and not colon:
            return cls(blind=word == "blind")
        if word != "noisy" or not colon:
            rule = f"must be true, blind or noisy:SIGMA, got {text!r}"
            raise InputError(rule, field="--durations")
        try:
            return cls(sigma=float(SIGMAS.parse(number)))
        except ValueError as error:
            raise InputError(f"the spread {error}", field="--durations") from error


PRIOR_GPU_S = np.geomspace(1e2, 1e6, 9)
"""Sizes that jobs are thought to have before one has completed, GPU-seconds; one job together."""


class Estimates(Protocol):
    """In place of the iterations that jobs have; what it remembers is a function of the states."""

    @property
    def remembers(self) -> bool:
        """Whether they depend on earlier rounds."""
        ...

    def observe(self, state: RoundState) -> None:
        """See a round; the same round twice is once."""
        ...

    def masked(self, state: RoundState) -> RoundState:
        """The state with the iterations of every job as they are told."""
        ...


class Noise:
    """Estimates of the work left that are wrong by a constant lognormal factor for each job.

    Parameters
    ----------
    sigma
        Of the factor's logarithm, whose mean is 0.
    seed
        Together with a job's name it decides the factor.
    """

    remembers = False

    def __init__(self, sigma: float, seed: int = 0) -> None:
        self._sigma, self._seed = sigma, seed

    def factor(self, name: str) -> float:
        """Estimate over truth of a job."""
        drawn = hashlib.sha256(f"{self._seed}/{name}".encode()).digest()
        uniform = (int.from_bytes(drawn[:6], "big") + 0.5) / 2.0**48
        return float(np.exp(self._sigma * NormalDist().inv_cdf(uniform)))

    def observe(self, state: RoundState) -> None:
        """Nothing is learnt."""

    def masked(self, state: RoundState) -> RoundState:
        """The state with the work left of every job times its factor."""
        jobs = (_with_left(j, j.iterations_left * self.factor(j.job.name)) for j in state.jobs)
        return replace(state, jobs=tuple(jobs))


class Learnt:
    """What is learnt of sizes, in GPU-seconds at a model's thriftiest configuration.

    A job's iterations are looked at when it has completed, not before; that it has not is known.

    Parameters
    ----------
    belief
        Speeds that it goes by.
    """

    remembers = True

    def __init__(self, belief: SpeedModel) -> None:
        self._builder = CandidateBuilder(belief)
        self._sizes: list[float] = []
        self._active: dict[str, Job] = {}

    def observe(self, state: RoundState) -> None:
        """Whoever was there and is not any more has completed; the same round twice is once."""
        now = {known.job.name: known.job for known in state.jobs}
        gone = [job for name, job in self._active.items() if name not in now]
        self._sizes += [job.iterations * self._thrift(job, state)[0] for job in gone]
        self._active = now

    def masked(self, state: RoundState) -> RoundState:
        """The state with the iterations of every job as they are thought to be."""
        pairs = [self._thrift(known.job, state) for known in state.jobs]
        thrift, gpus = np.asarray(pairs).reshape(len(pairs), 2).T
        done = thrift * [known.iterations_done for known in state.jobs]
        start = gpus * [known.restart_s * (known.running is None) for known in state.jobs]
        sizes = np.concatenate([PRIOR_GPU_S, np.sort(self._sizes)])
        weight = np.where(np.arange(sizes.size) < PRIOR_GPU_S.size, 1.0 / PRIOR_GPU_S.size, 1.0)
        left = LogNormal.fitted(sizes, weight, done).rest(done, start) / thrift
        jobs = tuple(map(_with_left, state.jobs, left.tolist()))
        return replace(state, jobs=jobs)

    def _thrift(self, job: Job, state: RoundState) -> tuple[float, float]:
        """Least GPU-seconds per iteration, and the GPUs for it; 1 for a job that fits nowhere."""
        mine = self._builder.all_of(job, state.cluster)
        if not mine.gpus.size:
            return 1.0, 1.0
        best = int((mine.gpus * mine.iteration_s).argmin())
        return float(mine.gpus[best] * mine.iteration_s[best]), float(mine.gpus[best])


def _with_left(known: JobState, left: float) -> JobState:
    total = int(np.clip(np.ceil(known.iterations_done + left), 1, MOST_ITERATIONS))
    return replace(known, job=replace(known.job, iterations=total))


class ToldPolicy:
    """A policy that is shown estimates in place of the iterations that jobs have.

    What it remembers is a function of the states that it was shown.

    Parameters
    ----------
    policy
        Decides.
    estimates
        What it is told.
    """

    def __init__(self, policy: Policy, estimates: Estimates) -> None:
        self._policy = policy
        self._estimates = estimates

    @property
    def remembers(self) -> bool:
        """Whether a decision depends on more than the state."""
        inner = getattr(self._policy, "remembers", hasattr(self._policy, "observe"))
        return self._estimates.remembers or inner

    @property
    def name(self) -> str:
        """That of the deciding policy."""
        return self._policy.name

    def observe(self, state: RoundState) -> None:
        """See a round that is decided elsewhere."""
        self._estimates.observe(state)
        observe = getattr(self._policy, "observe", None)
        if observe is not None:
            observe(self._estimates.masked(state))

    def decide(self, state: RoundState) -> Decision:
        """Observe, then decide on estimates."""
        self._estimates.observe(state)
        return self._policy.decide(self._estimates.masked(state))
