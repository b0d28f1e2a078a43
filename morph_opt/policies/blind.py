"""Policies that do not know how long jobs run: work left is estimated from what has completed.

Page: ``docs/formulations/unknown-durations.md``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.linear_model import Floats
from morph_opt.candidates.table import CandidateBuilder
from morph_opt.domain import Job, JobState, RoundState
from morph_opt.domain.job import MOST_ITERATIONS
from morph_opt.perf.speed import SpeedModel
from morph_opt.policies.base import Decision, Policy

PRIOR_GPU_S = np.geomspace(1e2, 1e6, 9)
"""Sizes that jobs are thought to have before one has completed, GPU-seconds."""


def gittins_rest(samples: Floats, attained: Floats) -> Floats:
    """Work left as the reciprocal of the Gittins index, in the unit of its arguments.

    Over the samples S > a, each as likely: the least over x of ``E min(S - a, x) / P(S - a <= x)``,
    the least work to be spent per completion. Beyond the largest sample, as much as was attained.

    Parameters
    ----------
    samples
        Sizes of complete jobs, ascending, shape (n,).
    attained
        Work done of each job, shape (J,).
    """
    begun = np.searchsorted(samples, attained, side="right")
    out = np.empty(attained.size)
    for row, (first, done) in enumerate(zip(begun.tolist(), attained.tolist(), strict=True)):
        rest = samples[first:] - done
        if not rest.size:
            out[row] = done
            continue
        within = np.arange(1, rest.size + 1)
        spent = np.cumsum(rest) + (rest.size - within) * rest
        out[row] = (spent / within).min()
    return out


class _Estimates:
    """What is learnt of sizes, in GPU-seconds at a model's thriftiest configuration."""

    def __init__(self, belief: SpeedModel) -> None:
        self._builder = CandidateBuilder(belief)
        self._samples = PRIOR_GPU_S
        self._active: dict[str, Job] = {}

    def observe(self, state: RoundState) -> None:
        """Whoever was there and is not any more has completed; the same round twice is once."""
        now = {known.job.name: known.job for known in state.jobs}
        gone = [job for name, job in self._active.items() if name not in now]
        sizes = [job.iterations * self._thrift(job, state) for job in gone]
        self._samples = np.sort(np.concatenate([self._samples, sizes]))
        self._active = now

    def masked(self, state: RoundState) -> RoundState:
        """The state with the iterations of every job as they are thought to be."""
        thrift = np.asarray([self._thrift(known.job, state) for known in state.jobs])
        done = np.asarray([known.iterations_done for known in state.jobs])
        left = gittins_rest(self._samples, done * thrift) / thrift
        jobs = tuple(map(_with_left, state.jobs, left.tolist()))
        return replace(state, jobs=jobs)

    def _thrift(self, job: Job, state: RoundState) -> float:
        """Least GPU-seconds per iteration; 1 for a job that fits nowhere."""
        mine = self._builder.all_of(job, state.cluster)
        return float((mine.gpus * mine.iteration_s).min(initial=np.inf)) if mine.gpus.size else 1.0


def _with_left(known: JobState, left: float) -> JobState:
    total = int(np.clip(np.ceil(known.iterations_done + left), 1, MOST_ITERATIONS))
    return replace(known, job=replace(known.job, iterations=total))


class BlindPolicy:
    """A policy that is shown estimates in place of the iterations that jobs have.

    What it remembers is a function of the states that it was shown. A job's iterations are looked
    at when it has completed, not before.

    Parameters
    ----------
    policy
        Decides.
    belief
        Speeds that it goes by.
    """

    remembers = True

    def __init__(self, policy: Policy, belief: SpeedModel) -> None:
        self._policy = policy
        self._estimates = _Estimates(belief)

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
