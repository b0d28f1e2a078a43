"""Objectives of the round MILP that follow target shares: fairness and its relatives.

Level 1 (**share**): service that a job is owed, most urgent first. With x the target share on
the type, L its lag (seconds of gang time owed so far) and H a horizon, the job *wants*
``d = min(1, x + L+/H)`` of its gang this round with *urgency* ``u = 1 + L+/H``; a configuration
with speed q relative to the gang is worth ``s u min(q, d)`` GPUs, start-up amortised. What a job
does not want is worth nothing on this level, so others get it, and malleable jobs share the
cluster side by side instead of taking turns.

Level 2 (**spare**): what is left goes where it gives the most normalised speed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from formulations.round_problem import Level, RoundProblem
from morph_opt.domain import RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import PairSpeeds
from morph_opt.policies.objectives.share_book import ShareBook

Floats = npt.NDArray[np.float64]

HORIZON_S = 1800.0
"""Seconds in which a lag is to be made up for."""

AMORTISE_S = 600.0
"""Seconds of service that a start-up is charged to."""


class FollowShares:
    """Follow the target shares of a policy.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    policy
        See `morph_opt.shares.request.SHARE_POLICIES`.
    horizon_s, amortise_s
        See `HORIZON_S` and `AMORTISE_S`.
    """

    def __init__(
        self,
        belief: SpeedModel,
        policy: str,
        *,
        horizon_s: float = HORIZON_S,
        amortise_s: float = AMORTISE_S,
    ) -> None:
        self.name = policy
        self.book = ShareBook(belief, policy)
        self._horizon_s = horizon_s
        self._amortise_s = amortise_s
        self._kind_of_class: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._held_kind: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def pack(self, speeds: PairSpeeds) -> None:
        """Let pairs of jobs on the same GPUs count in the target shares."""
        self.book.pack(speeds)

    def observe(self, state: RoundState) -> None:
        """See the round's snapshot before its problem; every round, in order."""
        self.book.observe(state)
        cluster = state.cluster
        self._kind_of_class = np.asarray(
            [cluster.gpu_types.index(kind.gpu_type) for kind in cluster.node_types]
        )
        nodes = [-1 if s.running is None else s.running.placement.nodes[0] for s in state.jobs]
        self._held_kind = np.asarray(
            [
                -1 if n < 0 else cluster.gpu_types.index(cluster.nodes[n].type.gpu_type)
                for n in nodes
            ],
            dtype=np.int64,
        )

    def levels(self, problem: RoundProblem) -> tuple[Level, ...]:
        """The levels ``share`` and ``spare``.

        Raises
        ------
        ValueError
            If the problem is not of the snapshot that was observed last.
        """
        book, jobs = self.book, problem.jobs
        if book.shares is None or book.request is None or book.lag_s.shape[0] != jobs.count:
            raise ValueError("the objective has not observed this round")
        gang = book.request.problem.gang.astype(np.float64)
        speed = np.where(book.request.problem.throughput > 0, book.request.problem.throughput, 1.0)
        behind = np.maximum(book.lag_s, 0.0) / self._horizon_s
        want = np.minimum(1.0, book.shares.x + behind)
        urgency = gang[:, None] * (1.0 + behind)
        owner, kind = problem.candidates.job, self._kind_of_class[problem.candidates.node_class]
        started = 1.0 / (problem.candidates.iteration_s * speed[owner, kind])
        held = np.maximum(self._held_kind, 0)
        rows = np.arange(jobs.count)
        pace = np.where(jobs.running, jobs.stay_iteration_s, 1.0)
        stayed = np.where(jobs.running, 1.0 / (pace * speed[rows, held]), 0.0)
        moved = (self._amortise_s / (self._amortise_s + jobs.restart_s))[owner]
        kept = self._amortise_s / (self._amortise_s + jobs.restart_left_s)
        share = Level(
            "share",
            "GPUs owed",
            urgency[owner, kind] * np.minimum(started, want[owner, kind]) * moved,
            urgency[rows, held] * np.minimum(stayed, want[rows, held]) * kept,
        )
        spare = Level(
            "spare", "normalised speed", gang[owner] * started * moved, gang * stayed * kept
        )
        return share, spare


SHARE_OBJECTIVES: dict[str, str] = {
    "fairness": "fairness",
    "fairness-agnostic": "fairness-agnostic",
    "hierarchical": "hierarchical",
    "hierarchical-fifo": "hierarchical-fifo",
    "ftf": "ftf",
    "makespan": "makespan",
    "max_throughput": "max_throughput",
    "cost": "cost",
    "fifo": "fifo",
    "srpt": "srpt",
}
"""Share policy behind each objective name."""
