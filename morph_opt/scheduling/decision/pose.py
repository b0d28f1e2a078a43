"""Pose a round: turn a snapshot into tables under rules, with pairs, and ranked goals.

Policy, explanation, conflicts, instances and benchmarks all pose their rounds here, so that the
round that is explained or published is the one that was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from formulations.arrays import Bools, Floats, Ints
from formulations.objectives import favoured, guarantee, with_losses
from formulations.round.rules import without_row
from formulations.round.tables import Level, RoundProblem
from morph_opt.core.domain import Cluster, RoundState
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.decision.ahead import Ahead, Plans
from morph_opt.scheduling.decision.candidates.pairs import PairBuilder
from morph_opt.scheduling.decision.candidates.returning import with_start_prices
from morph_opt.scheduling.decision.candidates.table import CandidateBuilder, RoundView
from morph_opt.scheduling.decision.due import Cut, DueJob, DueRows, believed_run_s, due_rows
from morph_opt.scheduling.decision.objective import Objective, goals_of
from morph_opt.scheduling.decision.params import TurnParams
from morph_opt.scheduling.decision.promises import Promises
from morph_opt.scheduling.decision.rules.compile import apply_rules
from morph_opt.scheduling.decision.rules.known import require_known_nodes
from morph_opt.scheduling.decision.rules.model import OperatorRules
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.decision.rules.ranks import (
    preferences,
    ranks_above,
    ranks_below,
    with_classes_kept,
)
from morph_opt.scheduling.decision.shadow import Shadow
from morph_opt.scheduling.decision.usage import current, with_usage


@dataclass(frozen=True, slots=True)
class PosedRound:
    """Round as it is decided.

    Parameters
    ----------
    state
        Snapshot.
    plain
        Tables without rules and pairs, from which the round can be posed under other rules.
    view
        Tables and the meaning of their indices.
    goals
        Goals of the objective, after the goals of priorities, most important first; the last one is
        the round's value.
    fallback
        Goals in their place if not every promise can be kept; the last ones match ``goals``.
    ranks
        Goals that operators rank below these.
    rules
        Rules that the tables obey.
    poser
        Poser of the round.
    data
        Observation of the objective; goals are a function of it and the tables.
    due
        Jobs that are due, with the rows that the tables have for them.
    cut
        Limit of these rows; None for none.
    """

    state: RoundState
    plain: RoundView
    view: RoundView
    goals: tuple[Level, ...]
    fallback: tuple[Level, ...]
    ranks: tuple[Level, ...]
    rules: OperatorRules
    poser: RoundPoser
    data: Any
    due: DueRows = field(default_factory=DueRows)
    cut: Cut | None = None

    @property
    def problem(self) -> RoundProblem:
        """Tables of the round."""
        return self.view.problem

    @property
    def levels(self) -> tuple[Level, ...]:
        """All goals, most important first."""
        return (*self.goals, *self.ranks)

    @property
    def fallback_levels(self) -> tuple[Level, ...]:
        """All goals used if not every promise can be kept, most important first."""
        return (*self.fallback, *self.ranks)

    @property
    def worth(self) -> Level:
        """Goal in which values and bounds are stated: the last one of the objective."""
        return self.goals[-1]

    def worth_of(self, tried: tuple[Level, ...]) -> Level:
        """Return `worth`, or its fallback level if that was tried."""
        stood = any(level is self.fallback[-1] for level in tried)
        return self.fallback[-1] if stood else self.worth

    def counterparts(self, other: PosedRound, options: tuple[int, ...]) -> tuple[int, ...]:
        """Return the options of this round that match ``options`` of another posing of it.

        Options of one job exist under all rules; pairs that rules keep apart have no counterpart.
        """
        wanted = _by_members(other.problem, np.asarray(options, dtype=np.int64))
        members, jobs = self.problem.options.members, {job for made in wanted for job, _ in made}
        theirs = np.isin(members.job, list(jobs))
        near = np.flatnonzero(np.bincount(members.option[theirs], minlength=1))
        here = dict(zip(_by_members(self.problem, near), near.tolist(), strict=True))
        return tuple(here[made] for made in wanted if made in here)

    def under(self, rules: OperatorRules) -> PosedRound:
        """Return the same round under other rules."""
        return self.poser.posed(self.state, self.plain, rules, self.data, self.cut)

    def with_due(self, cut: Cut) -> PosedRound:
        """Return the same round with fewer rows of due jobs."""
        return self.poser.posed(self.state, self.plain, self.rules, self.data, cut)

    def without_due(self, one: DueJob) -> PosedRound:
        """Return the same round without the row of one due job."""
        problem = without_row(self.problem, one.row, (one.job,))
        return replace(self, view=replace(self.view, problem=problem))

    def whole(self) -> PosedRound:
        """Return the same round with all configurations, however large it becomes."""
        plain = self.poser.whole(self.state)
        return self.poser.posed(self.state, plain, self.rules, self.data, self.cut)

    def with_one_more_node(self, like: int) -> PosedRound:
        """Return the same round with another idle, open node of the class and leaf of ``like``.

        It is appended; rules naming ``like`` apply to it too. The tables have everything that a
        larger cluster makes possible.
        """
        cluster = self.state.cluster
        one = replace(cluster.nodes[like], name=_fresh_name(cluster))
        larger = replace(cluster, nodes=(*cluster.nodes, one))
        state = replace(self.state, cluster=larger)
        rules = self.rules.with_node_like(cluster, like, one.name)
        plain = self.poser.tables().view(state)
        return self.poser.posed(state, plain, rules, self.data, self.cut)


class RoundPoser:
    """Poser of the rounds of one policy; it has caches, and a history only if it plans ahead.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    objective
        Objective of rounds.
    rules
        Rules of the operator.
    packing
        Measured speeds of pairs of jobs on the same GPUs, which rounds offer; None: no pairs.
    pairs
        Factory of the builder of pairs.
    promises
        Rule for promises that cannot all be kept; None for a rank.
    compact_from
        Candidates from which on rounds leave out what no prices choose; None: never. Rounds with
        pairs, which need equal shapes, or ``tighter_packing``, which counts nodes, never do.
    waste_filter
        Filter for workers that take turns; see
        `morph_opt.scheduling.decision.candidates.ests.elastic_slice`.
    start_by
        Rules of due jobs in addition to those of the operator.
    turns
        Turns of wide jobs that are due by ``start_by``; None for none.
    accuracy
        Function that returns the share of the believed run times that jobs are expected to take,
        for due instants and reservations; None: all of it.
    ahead
        Kind of plans of all starts, where no job may be stopped; None for no plans.
    """

    def __init__(
        self,
        belief: SpeedModel,
        objective: Objective[Any],
        rules: OperatorRules | None = None,
        packing: PairSpeeds | None = None,
        pairs: Callable[[PairSpeeds], PairBuilder] = PairBuilder,
        promises: Promises | None = None,
        compact_from: int | None = None,
        waste_filter: float | None = None,
        start_by: Sequence[StartBy] = (),
        turns: TurnParams | None = None,
        accuracy: Callable[[], float] | None = None,
        ahead: Ahead | None = None,
    ) -> None:
        self._plans = None if ahead is None else Plans(ahead)
        own = () if rules is None else rules.rules
        restarts_s = [one.restart_s for one in own if isinstance(one, StartBy)]
        known_s = [each for each in restarts_s if each is not None]
        self._shadow = Shadow(max(known_s)) if known_s else None
        self._start_by, self._turns, self._accuracy = tuple(start_by), turns, accuracy
        self.belief = belief
        self.rules = rules or OperatorRules()
        self.objective = with_usage(objective, self.rules)
        self.promises = promises or Promises()
        plain = packing is None and not self.rules.tighter_packing
        self._compact_from = compact_from if plain else None
        self._waste_filter = waste_filter
        self._builder = self.tables()
        self._pairs = None if packing is None else pairs(packing)
        self._cluster: Cluster | None = None

    def tables(self) -> CandidateBuilder:
        """Return a fresh builder of the round's tables."""
        # A smallest gang may ask for a configuration that a faster one on fewer GPUs dominates.
        prune = self.rules.smallest_gang == 1
        return CandidateBuilder(
            self.belief,
            prune=prune,
            compact_from=self._compact_from,
            waste_filter=self._waste_filter,
        )

    def pose(self, state: RoundState) -> PosedRound:
        """Pose the round of a snapshot and show the snapshot to the objective.

        Raises
        ------
        InputError
            If a rule names nodes or GPU types that the cluster has none of.
        """
        if state.cluster is not self._cluster:
            require_known_nodes(self.rules, state.cluster)
            self._cluster = state.cluster
        plain, data = self._builder.view(state), self.objective.observe(state)
        if self._shadow is not None:
            self._shadow.see(state, lambda: _asked(plain.problem, state))
        return self.posed(state, plain, current(self.objective, self.rules), data)

    def whole(self, state: RoundState) -> RoundView:
        """Return the tables of a snapshot without rules and pairs, with nothing left out."""
        return self._builder.view(state, whole=True)

    def _fallback(self, problem: RoundProblem, goals: tuple[Level, ...]) -> tuple[Level, ...]:
        if not problem.jobs.guaranteed.any():
            return goals
        if self.promises.factor is None:
            return (guarantee(problem), *goals)
        return favoured(problem, goals, self.promises.factor)

    @property
    def remembers(self) -> bool:
        """Whether rounds depend on earlier ones."""
        known = self._plans is not None or self._shadow is not None
        return known or self.objective.remembers

    def observe(self, state: RoundState) -> None:
        """See a round that is decided elsewhere."""
        self.objective.observe(state)
        if self._plans is not None:
            self._plans.observe(state)
        if self._shadow is not None:
            self._shadow.see(state, lambda: _asked(self._builder.view(state).problem, state))

    def posed(
        self,
        state: RoundState,
        plain: RoundView,
        rules: OperatorRules,
        data: Any,
        cut: Cut | None = None,
    ) -> PosedRound:
        """Pose a round from tables without rules and pairs, under these rules."""
        view = apply_rules(plain, state, rules)
        if self._pairs is not None:
            view = self._pairs.extended(view, state)
        view = with_start_prices(view, state.cluster)
        share = 1.0 if self._accuracy is None else self._accuracy()
        if self._plans is None:
            how = cut, share, self._turns, self._shadow
            due = due_rows(view.problem, state, rules, self._start_by, *how)
        else:
            due = self._plans.rows(view.problem, state, rules, self._start_by, cut, share)
        if due.rows or due.reservation or due.ahead:
            view = replace(view, problem=due.applied(view.problem))
        view = replace(view, problem=with_classes_kept(view.problem, state, rules))
        goals = goals_of(self.objective, view.problem, data)
        goals = with_losses(view.problem, goals, _lost_s(state))
        goals = (*ranks_above(view.problem, state, rules, goals[-1]), *goals)
        ranks = (*preferences(view.problem, state, rules), *ranks_below(view.problem, rules))
        fallback = self._fallback(view.problem, goals)
        return PosedRound(state, plain, view, goals, fallback, ranks, rules, self, data, due, cut)


def _by_members(problem: RoundProblem, options: Ints) -> list[tuple[tuple[int, int], ...]]:
    """Return a key per option: its jobs, and the candidate of each; -1 for a stay.

    A return to named nodes differs from its candidate elsewhere: -2 and less, by the candidate.
    """
    members, count = problem.options.members, problem.candidates.count
    how = np.where(members.starts, members.alone, -1)
    back = ~problem.options.shared[members.option] & members.starts & (members.option >= count)
    how[back] = -2 - how[back]
    first, last = (np.searchsorted(members.option, options, side) for side in ("left", "right"))
    return [
        tuple(zip(members.job[own].tolist(), how[own].tolist(), strict=True))
        for own in map(slice, first.tolist(), last.tolist())
    ]


def _lost_s(state: RoundState) -> Floats:
    """Return the seconds of progress that a stop of each job loses, shape (J,); NaN for none."""
    at_s = state.time_s
    lost = [np.nan if j.checkpointed_s is None else j.lost_s(at_s) for j in state.jobs]
    return np.asarray(lost)


def _asked(problem: RoundProblem, state: RoundState) -> tuple[Floats, Bools]:
    """Return what the virtual EASY schedule needs of a round's jobs (`Shadow.see`)."""
    asked = np.asarray([known.job.requested_gpus for known in state.jobs])
    candidates = problem.candidates
    types = np.zeros((asked.size, len(state.cluster.node_types)), dtype=bool)
    within = candidates.gpus <= asked[candidates.job]
    types[candidates.job[within], candidates.node_class[within]] = True
    return believed_run_s(problem, state), types


def _fresh_name(cluster: Cluster) -> str:
    """Return a name that no node of the cluster has."""
    name = "one-more"
    while name in cluster.node_index:
        name += "-more"
    return name
