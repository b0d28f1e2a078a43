"""Target shares of the jobs of a round, and the lag of each job from its own.

The share of a job is counted in time of its requested gang (GPUs and plan): that is what Gavel's
policies are defined on, also when the round then runs the job in another configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from formulations.arrays import Floats
from formulations.parameters import RATIOS
from formulations.shares.problem import ShareProblem, isolated_rates
from morph_opt.core.domain import InputError, JobState, RoundState
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.policies.objectives.deadlines import SloNames, prices_of, slo_left_s
from morph_opt.scheduling.shares.max_min import Solve, lp_solver
from morph_opt.scheduling.shares.packed import PACKED_POLICIES, PackedTargets, alone_equivalent
from morph_opt.scheduling.shares.policies import Shares
from morph_opt.scheduling.shares.request import ShareRequest, shares_of


@dataclass
class _Record:
    """Memory of a job between rounds."""

    done: float = 0.0
    isolated_s: float = 0.0
    isolated_rate: float = 0.0
    fair_done: float = 0.0
    fair_finish_s: float = np.inf
    lag_s: Floats = field(default_factory=lambda: np.zeros(0))


class ShareBook:
    """Target shares of the active jobs, and each job's lag per GPU type.

    It must see every round (`observe`), also those that a resumed replay repeats, so that its
    values depend on the sequence of snapshots alone.

    Parameters
    ----------
    belief, policy
        Speeds, and the share policy (`morph_opt.scheduling.shares.request.SHARE_POLICIES`).
    entity_weights
        Weight of a tenant by name, for the hierarchical policies; 1 where not given.

    Notes
    -----
    ``cost`` takes prices from the cluster's GPU types and deadlines from the jobs.
    """

    def __init__(
        self, belief: SpeedModel, policy: str, entity_weights: Mapping[str, float] | None = None
    ) -> None:
        self.speeds = GangSpeeds(belief)
        self.policy = policy
        self.entity_weights: Mapping[str, float] = entity_weights or {}
        self.slos = SloNames()
        self._solve: Solve = lp_solver()
        self._packed: PackedTargets | None = None
        self._records: dict[str, _Record] = {}
        self._time_s: float | None = None
        self._names: tuple[str, ...] = ()
        self.request: ShareRequest | None = None
        self.shares: Shares | None = None
        self.lag_s: Floats = np.zeros((0, 0))
        self.fair_finish_s: Floats = np.zeros(0)

    def pack(self, speeds: PairSpeeds) -> None:
        """Solve target shares with pairs of jobs on the same GPUs, if the policy supports it."""
        if self.policy in PACKED_POLICIES:
            self._packed = PackedTargets(speeds)

    def observe(self, state: RoundState) -> None:
        """Settle the round that has passed, and solve the shares anew if the jobs changed."""
        self.speeds.use(state.cluster)
        self._settle(state)
        names = tuple(s.job.name for s in state.jobs)
        self._records = {name: self._records.get(name, _Record()) for name in names}
        types = self.speeds.capacity.size
        for record in self._records.values():
            if record.lag_s.size != types:
                record.lag_s = np.zeros(types)
        if names and (names != self._names or self.policy in ("ftf", "cost", "srpt")):
            self.request = self._request(state)
            if self._packed is not None:
                problem = self._packed.with_pairs(self.request.problem, state)
                self.request = replace(self.request, problem=problem)
            self.shares = _shares(self.policy, self.request, self._solve, names)
            self.shares = alone_equivalent(self.request.problem, self.shares)
            if self.policy == "cost":
                self.slos.settle(state, self.shares.dropped)
            rates = isolated_rates(self.request.problem)
            for name, rate in zip(names, rates.tolist(), strict=True):
                self._records[name].isolated_rate = rate
        self._names, self._time_s = names, state.time_s
        self.fair_finish_s = self._fair_finish(state)
        self.lag_s = np.asarray([self._records[name].lag_s for name in names]).reshape(-1, types)

    def _settle(self, state: RoundState) -> None:
        """Credit what ran since the last snapshot, and debit the shares that were due."""
        if self._time_s is None or self.shares is None:
            return
        elapsed_s = state.time_s - self._time_s
        row_of = {name: row for row, name in enumerate(self._names)}
        fair = self.fair_rate.tolist()
        for job in state.jobs:
            record, row = self._records.get(job.job.name), row_of.get(job.job.name)
            if record is None or row is None:
                continue
            gained = job.iterations_done - record.done
            record.done = job.iterations_done
            if record.isolated_rate > 0:
                record.isolated_s += max(0.0, gained) / record.isolated_rate
            record.lag_s = record.lag_s + self.shares.x[row] * elapsed_s
            # The part of the round before the job's submission counts as fair, too.
            record.fair_done += fair[row] * elapsed_s
            if record.fair_done >= job.job.iterations and not np.isfinite(record.fair_finish_s):
                record.fair_finish_s = state.time_s - job.job.submission_s
            kind = self._kind(state, job)
            speed = 0.0 if kind is None else float(self.speeds.row(job.job)[kind])
            if kind is not None and speed > 0:
                # Time of the gang that the progress is worth on the type it ran on.
                record.lag_s[kind] -= gained / speed

    @property
    def fair_rate(self) -> Floats:
        """Return steps per second under the shares, at least a small part of an equal share's."""
        if self.request is None or self.shares is None:
            return np.zeros(0)
        problem = self.request.problem
        return np.maximum(problem.rates(self.shares.x), RATIOS.least_rate * isolated_rates(problem))

    def _fair_finish(self, state: RoundState) -> Floats:
        """Return seconds from submission to the fair finish of each job at the present shares."""
        rates = self.fair_rate
        out = np.zeros(len(state.jobs))
        for row, job in enumerate(state.jobs):
            record = self._records[job.job.name]
            if np.isfinite(record.fair_finish_s):
                out[row] = record.fair_finish_s
                continue
            missing = max(0.0, job.job.iterations - record.fair_done)
            elapsed_s = state.time_s - job.job.submission_s
            out[row] = elapsed_s + missing / float(rates[row])
        return out

    def _kind(self, state: RoundState, job: JobState) -> int | None:
        if job.running is None:
            return None
        node = state.cluster.nodes[job.running.placement.nodes[0]]
        return state.cluster.gpu_types.index(node.type.gpu_type)

    def _request(self, state: RoundState) -> ShareRequest:
        jobs = state.jobs
        tenants = sorted({s.job.tenant for s in jobs})
        costs = self.policy == "cost"
        left_s = [slo_left_s(s, state.time_s) if costs else np.inf for s in jobs]
        return ShareRequest(
            problem=_problem(jobs, self.speeds),
            weight=np.asarray([s.job.weight for s in jobs]),
            steps_left=np.asarray([max(1e-9, s.iterations_left) for s in jobs]),
            since_s=np.asarray([state.time_s - s.job.submission_s for s in jobs]),
            isolated_s=np.asarray([self._records[s.job.name].isolated_s for s in jobs]),
            arrival=np.arange(len(jobs), dtype=np.int64),
            entity=np.asarray([tenants.index(s.job.tenant) for s in jobs], dtype=np.int64),
            # A deadline that has passed no longer binds: nothing can keep it.
            slo_s=np.asarray([x if x > 0 else np.inf for x in left_s]),
            price=prices_of(state.cluster) if costs else np.ones(len(state.cluster.gpu_types)),
            entity_weight=np.asarray([self.entity_weights.get(name, 1.0) for name in tenants]),
        )


def _problem(jobs: tuple[JobState, ...], speeds: GangSpeeds) -> ShareProblem:
    table = np.asarray([speeds.row(s.job) for s in jobs])
    gang = np.asarray([s.job.requested_gpus for s in jobs], dtype=np.int64)
    # A malleable job may ask for more GPUs than a type has and still run on fewer.
    largest = np.where(table > 0, speeds.capacity[None, :], 0.0).max(axis=1)
    return ShareProblem(table, np.minimum(gang, largest.astype(np.int64)), speeds.capacity)


def _shares(policy: str, request: ShareRequest, solve: Solve, names: tuple[str, ...]) -> Shares:
    try:
        return shares_of(policy, request, solve)
    except ValueError as error:
        text = str(error)
        for number in range(len(names) - 1, -1, -1):
            text = text.replace(f"job {number}:", f"job {names[number]}:")
        raise InputError(text, field=f"target shares, {policy}") from error
