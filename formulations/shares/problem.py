"""`ShareProblem`: jobs, GPU types and throughputs as arrays; the polytope of target shares.

A target share ``x[j, m]`` is the fraction of time that job j (its whole gang) spends on GPU type m.
``J`` jobs, ``T`` types, ``P`` pairs of jobs that may share the same GPUs. The notation is on
``docs/formulations/fairness.md``; the source is Gavel (OSDI'20), sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.tolerances import SOLVED


def _no_index() -> Ints:
    return np.zeros(0, dtype=np.int64)


def _no_pairs() -> Floats:
    return np.zeros((0, 0, 2))


@dataclass(frozen=True, slots=True)
class PairTable:
    """Pairs of jobs that may run on the same GPUs at the same time.

    Parameters
    ----------
    first, second
        The two jobs of each pair, shape (P,).
    throughput
        Steps per second of the first and the second job while they share, shape (P, T, 2); 0 for
        both on a type where they cannot share.
    """

    first: Ints = field(default_factory=_no_index)
    second: Ints = field(default_factory=_no_index)
    throughput: Floats = field(default_factory=_no_pairs)

    @property
    def count(self) -> int:
        """Number of pairs P."""
        return int(self.first.size)


@dataclass(frozen=True, slots=True)
class ShareProblem:
    """The polytope of target shares.

    Parameters
    ----------
    throughput
        Steps per second of the whole gang, alone, shape (J, T); 0 if it cannot run.
    gang
        GPUs of each job, shape (J,).
    capacity
        GPUs of each type, shape (T,).
    oversize
        Whether a gang larger than a type may have a share of it (up to ``capacity / gang``), as in
        the published code. By default such shares are 0.
    pairs
        Packing candidates; none by default.

    Raises
    ------
    ValueError
        If shapes disagree, a number is negative or not finite, or a job cannot run anywhere: the
        message names the job and the rule.
    """

    throughput: Floats
    gang: Ints
    capacity: Floats
    oversize: bool = False
    pairs: PairTable = field(default_factory=PairTable)

    def __post_init__(self) -> None:
        jobs, types = self.throughput.shape
        if self.gang.shape != (jobs,) or self.capacity.shape != (types,):
            raise ValueError(
                f"gang {self.gang.shape} and capacity {self.capacity.shape} must match "
                f"throughput {self.throughput.shape}"
            )
        if not np.isfinite(self.throughput).all() or (self.throughput < 0).any():
            raise ValueError("throughput must be finite and at least 0")
        if jobs and int(self.gang.min()) < 1:
            raise ValueError(f"job {int(self.gang.argmin())}: gang must be at least 1 GPU")
        if not np.isfinite(self.capacity).all() or (self.capacity < 0).any():
            raise ValueError("capacity must be finite and at least 0")
        if self.pairs.count and self.pairs.throughput.shape != (self.pairs.count, types, 2):
            raise ValueError(
                f"pairs.throughput must have shape {(self.pairs.count, types, 2)}, "
                f"got {self.pairs.throughput.shape}"
            )
        self._require_runnable()

    def _require_runnable(self) -> None:
        fits = self.holds & (self.capacity[None, :] > 0)
        homeless = np.flatnonzero(~fits.any(axis=1))
        if homeless.size:
            job = int(homeless[0])
            raise ValueError(f"job {job}: a gang of {self.gang[job]} is larger than every type")
        stuck = np.flatnonzero(~(fits & (self.throughput > 0)).any(axis=1))
        if stuck.size:
            raise ValueError(f"job {int(stuck[0])}: throughput is 0 on every type that can hold it")

    @property
    def jobs(self) -> int:
        """Number of jobs J."""
        return int(self.gang.size)

    @property
    def types(self) -> int:
        """Number of GPU types T."""
        return int(self.capacity.size)

    @property
    def holds(self) -> Bools:
        """Whether a gang fits a type, shape (J, T)."""
        return (self.gang[:, None] <= self.capacity[None, :]) | self.oversize

    @property
    def allowed(self) -> Bools:
        """Whether a job may have a share of a type, shape (J, T)."""
        return self.holds & (self.throughput > 0) & (self.capacity > 0)

    @property
    def speed(self) -> Floats:
        """Throughput where a share is allowed and 0 elsewhere, shape (J, T)."""
        return np.where(self.allowed, self.throughput, 0.0)

    @property
    def pair_gang(self) -> Ints:
        """GPUs that a pair holds, the larger gang of the two, shape (P,)."""
        return np.maximum(self.gang[self.pairs.first], self.gang[self.pairs.second])

    @property
    def pair_allowed(self) -> Bools:
        """Whether a pair may have a share, shape (P, T): both jobs run there and are allowed."""
        if not self.pairs.count:
            return np.zeros((0, self.types), dtype=bool)
        both = self.allowed[self.pairs.first] & self.allowed[self.pairs.second]
        return both & (self.pairs.throughput > 0).all(axis=2)

    def agnostic(self) -> ShareProblem:
        """Return the same gangs and types with every throughput 1, as for a type-blind policy.

        Notes
        -----
        Also a type on which a job has throughput 0 counts as 1, as in the published code.
        """
        return ShareProblem(np.ones_like(self.throughput), self.gang, self.capacity, self.oversize)

    def rates(self, x: Floats, pair_x: Floats | None = None) -> Floats:
        """Return the steps per second of every job under the shares, shape (J,).

        Parameters
        ----------
        x
            Shares of the jobs alone, shape (J, T).
        pair_x
            Shares of the pairs, shape (P, T).
        """
        total: Floats = (self.throughput * x).sum(axis=1)
        if pair_x is not None and self.pairs.count:
            gained = (self.pairs.throughput * pair_x[:, :, None]).sum(axis=1)
            np.add.at(total, self.pairs.first, gained[:, 0])
            np.add.at(total, self.pairs.second, gained[:, 1])
        return total


def equal_share_rates(problem: ShareProblem) -> Floats:
    """Return Gavel's normaliser ``p_j = sum_m T[j, m] N_m / sum N``, steps/s, shape (J,)."""
    return np.asarray(problem.throughput @ problem.capacity / problem.capacity.sum())


def isolated_shares(problem: ShareProblem) -> Floats:
    """Return the shares of a job that owns 1/J of every type, shape (J, T).

    ``x[j, m] = (N_m / J) / s_j`` on the types that can hold its gang, a row scaled down to sum 1
    where it exceeds 1.
    """
    x = problem.capacity[None, :] / (problem.jobs * problem.gang[:, None])
    x = np.where(problem.holds, x, 0.0)
    return np.asarray(x / np.maximum(1.0, x.sum(axis=1, keepdims=True)))


def isolated_rates(problem: ShareProblem) -> Floats:
    """Return the steps per second of every job under `isolated_shares`, shape (J,)."""
    return problem.rates(isolated_shares(problem))


def check_shares(problem: ShareProblem, x: Floats, pair_x: Floats | None = None) -> None:
    """Check shares against the definition of the polytope, not against any model.

    Raises
    ------
    ValueError
        If a rule (``nonnegative``, ``allowed``, ``time``, ``capacity``) is broken; with its
        violation.
    """
    pair_x = np.zeros((problem.pairs.count, problem.types)) if pair_x is None else pair_x
    if min(x.min(initial=0.0), pair_x.min(initial=0.0)) < -SOLVED:
        raise ValueError("nonnegative: a share is below 0")
    stray = np.argwhere(~problem.allowed & (problem.throughput > 0) & (x > SOLVED))
    if stray.size:
        raise ValueError(
            f"allowed: job {int(stray[0, 0])} has a share on a type that cannot hold it"
        )
    if pair_x.size and (pair_x[~problem.pair_allowed] > SOLVED).any():
        raise ValueError("allowed: a pair has a share where it cannot run")
    time = x.sum(axis=1)
    np.add.at(time, problem.pairs.first, pair_x.sum(axis=1))
    np.add.at(time, problem.pairs.second, pair_x.sum(axis=1))
    if time.max(initial=0.0) > 1.0 + SOLVED:
        raise ValueError(f"time: job {int(time.argmax())} is busy {time.max():.9g} of the time")
    used = problem.gang @ x + problem.pair_gang @ pair_x
    over = used - problem.capacity * (1.0 + SOLVED)
    if over.max(initial=0.0) > SOLVED:
        kind = int(over.argmax())
        raise ValueError(
            f"capacity: type {kind} has {problem.capacity[kind]:g} GPUs, {used[kind]:.9g} are used"
        )
