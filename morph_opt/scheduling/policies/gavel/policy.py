"""Gavel in the round engine: target shares and its priority mechanism for rigid gangs.

``gavel:<policy>`` takes any name of `morph_opt.scheduling.shares.request.SHARE_POLICIES`. The
mechanism (OSDI'20, section 5): every (job, type) has the priority ``x[j, m] / received[j, m]``, the
time received on the type since the last reset as a part of all time given there. Per type, in a
fixed order, gangs are served by (priority, deficit, share), skipping what does not fit. At a reset
the shares are solved again, and what a job should have received less what it did receive is added
to its deficit.

Placement, which the published simulator leaves out, is the engine's, and a gang that finds no nodes
is skipped. Rounds of the mechanism are 360 s long also where the engine decides more often: at
other boundaries all jobs stay (with 60 s rounds and a start-up of minutes, jobs that take turns
would never make a step).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from formulations.arrays import Floats, Ints
from formulations.tolerances import SMALLEST
from morph_opt.core.domain import RoundState
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.policies.base import Decision
from morph_opt.scheduling.policies.filling import Filling, FillingPolicy
from morph_opt.scheduling.policies.objectives.deadlines import SloNames
from morph_opt.scheduling.policies.objectives.share_book import ShareBook
from morph_opt.scheduling.policies.published import GAVEL
from morph_opt.scheduling.shares.policies import Shares

_TYPE_ORDER = ("V100", "P100", "K80")
"""Order in which the published code serves GPU types; others follow in the cluster's order."""


class Book(Protocol):
    """Target shares of the jobs of a round, and SLOs that are dropped."""

    shares: Shares | None
    slos: SloNames

    def observe(self, state: RoundState) -> None:
        """See a round."""
        ...


class Mechanism:
    """Received time, deficits and priorities of numbered jobs on numbered types.

    Parameters
    ----------
    jobs, types
        Number of jobs that will ever come, and of GPU types.
    round_s
        Length of a round; a job is credited half of it when it comes and at every reset.
    """

    def __init__(self, jobs: int, types: int, round_s: float = GAVEL.round_s) -> None:
        self.received = np.full((jobs, types), round_s / 2.0)
        self.deficit = np.zeros((jobs, types))
        self.total = np.zeros(types)
        self.shares = np.zeros((jobs, types))
        self.known = np.zeros(jobs, dtype=bool)
        self.reset_s = 0.0
        self._credit = round_s / 2.0

    def reset(self, now_s: float, active: Ints, shares: Floats) -> None:
        """Take new shares (rows of ``active``) and add missed time to the deficits."""
        elapsed = now_s - self.reset_s
        got = self.received[active] - self._credit
        self.deficit[active] += self.shares[active] * elapsed - got
        self.received[active] = self._credit
        self.total[:] = self._credit * active.size
        self.reset_s = now_s
        self.shares[:] = 0.0
        self.shares[active] = shares
        self.known[:] = False
        self.known[active] = True

    def credit(self, job: int, kind: int, seconds: float) -> None:
        """Count the seconds for which a job ran on a type."""
        self.received[job, kind] += seconds
        self.total[kind] += seconds

    def priorities(self, active: Ints) -> Floats:
        """Return the priority of the active jobs on each type, shape (active, T)."""
        shares, received = self.shares[active], self.received[active]
        part = np.where(self.total > 0, received / np.maximum(self.total, SMALLEST), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(part > 0, shares / part, shares * GAVEL.unserved)
        return np.asarray(np.where(shares > 0, ratio, 0.0))

    def order(self, active: Ints, kind: int) -> Ints:
        """Return positions in ``active`` by (priority, deficit, share) on a type, highest first."""
        priority = self.priorities(active)[:, kind]
        deficit, share = self.deficit[active, kind], self.shares[active, kind]
        # Stable descending order, as sorting in reverse keeps equal elements in their order.
        keys = np.lexsort((np.arange(active.size), -share, -deficit, -priority))
        return np.asarray(keys)


class GavelRounds(FillingPolicy):
    """Target shares of a policy, followed by Gavel's priorities.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    policy
        Share policy.
    entity_weights
        See `morph_opt.scheduling.policies.objectives.share_book.ShareBook`.
    book
        Source of the shares; None for a new share book.
    """

    def __init__(
        self,
        belief: SpeedModel,
        policy: str,
        entity_weights: Mapping[str, float] | None = None,
        book: Book | None = None,
    ) -> None:
        super().__init__(belief)
        self.name = f"gavel:{policy}"
        self._policy = policy
        self._book: Book = book or ShareBook(belief, policy, entity_weights)
        self._mechanism = Mechanism(0, 0)
        self._numbers: dict[str, int] = {}
        self._executed_s: dict[str, float] = {}
        self._active: tuple[str, ...] = ()
        self._state: RoundState | None = None
        self._changed = False

    def observe(self, state: RoundState) -> None:
        """Credit the last round; reset if jobs have changed and a reset is due."""
        self._book.observe(state)
        types = len(state.cluster.gpu_types)
        self._grow([s.job.name for s in state.jobs], types, state.interval_s)
        for job in state.jobs:
            passed_s = job.executed_s - self._executed_s.get(job.job.name, 0.0)
            if job.running is not None and passed_s > 0:
                node = state.cluster.nodes[job.running.placement.nodes[0]]
                kind = state.cluster.gpu_types.index(node.type.gpu_type)
                self._mechanism.credit(self._numbers[job.job.name], kind, passed_s)
        self._executed_s = {job.job.name: job.executed_s for job in state.jobs}
        names = tuple(s.job.name for s in state.jobs)
        self._changed |= names != self._active
        self._active, self._state = names, state
        if self._changed and self._book.shares is not None and self.due(state, names):
            rows = np.asarray([self._numbers[name] for name in names], dtype=np.int64)
            self._mechanism.reset(state.time_s, rows, self._book.shares.x)
            self._changed = False

    def due(self, state: RoundState, names: Iterable[str]) -> bool:
        """Return whether shares must be solved again: by time, or because all jobs are new."""
        last = self._mechanism.reset_s
        if last == 0.0 or state.time_s - last >= GAVEL.reset_s:
            return True
        numbers = (self._numbers.get(name) for name in names)
        return not any(self._mechanism.known[n] for n in numbers if n is not None)

    def _grow(self, names: list[str], types: int, interval_s: float) -> None:
        """Number new jobs and enlarge the mechanism's tables."""
        new = [name for name in names if name not in self._numbers]
        if not new and self._mechanism.total.size == types:
            return
        for name in new:
            self._numbers[name] = len(self._numbers)
        old, grown = self._mechanism, Mechanism(len(self._numbers), types, interval_s)
        if old.total.size == types:
            count = old.known.size
            grown.received[:count], grown.deficit[:count] = old.received, old.deficit
            grown.shares[:count], grown.known[:count] = old.shares, old.known
            grown.total[:], grown.reset_s = old.total, old.reset_s
        self._mechanism = grown

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        if not state.jobs:
            return super().decide(state)
        self.observe(state)
        slos, decision = self._book.slos, super().decide(state)
        report = replace(
            decision.report, slo_dropped=slos.newly_dropped, slo_restored=slos.restored
        )
        return Decision(decision.allocation, report)

    def fill(self, filling: Filling) -> None:
        """Fill type by type in order of priority; running jobs stay in place if they may."""
        state = self._state
        if state is None or not state.jobs:
            return
        if not begins_round(state):
            for job in range(len(state.jobs)):
                if state.jobs[job].running is not None:
                    filling.keep(job)
            return
        view, cluster = filling.view, state.cluster
        rows = np.asarray([self._numbers[name] for name in self._active], dtype=np.int64)
        known = self._mechanism.known[rows]
        names = [kind.name for kind in cluster.gpu_types]
        order = sorted(
            range(len(names)),
            key=lambda k: _TYPE_ORDER.index(names[k]) if names[k] in _TYPE_ORDER else 99 + k,
        )
        kind_of_class = [cluster.gpu_types.index(t.gpu_type) for t in cluster.node_types]
        table = view.problem.candidates
        wanted = [filling.candidates(job) for job in range(len(state.jobs))]
        done: set[int] = set()
        for kind in order:
            priority = self._mechanism.priorities(rows)[:, kind]
            for job in self._mechanism.order(rows, kind).tolist():
                unwanted = self._policy in ("fifo", "srpt") and priority[job] <= 0
                if job in done or not known[job] or unwanted:
                    continue
                mine = [k for k in wanted[job] if kind_of_class[table.node_class[k]] == kind]
                if self._place(filling, job, kind, mine):
                    done.add(job)

    def _place(self, filling: Filling, job: int, kind: int, candidates: list[int]) -> bool:
        state = self._state
        assert state is not None
        running = state.jobs[job].running
        if running is not None:
            node = state.cluster.nodes[running.placement.nodes[0]]
            same = state.cluster.gpu_types.index(node.type.gpu_type) == kind
            if same and filling.keep(job):
                return True
        return filling.start(job, candidates)


def begins_round(state: RoundState) -> bool:
    """Return whether a round of the mechanism begins at this boundary of the engine."""
    return int(state.time_s // GAVEL.round_s) > int(
        (state.time_s - state.interval_s) // GAVEL.round_s
    )
