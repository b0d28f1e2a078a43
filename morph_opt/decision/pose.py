"""Pose a round: from a snapshot to tables under rules, with pairs, and ranked goals.

Whoever needs a round - policy, explanation, conflicts, instances, benchmarks - poses it here, so
that what is explained or published is what is decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from formulations.linear_model import Floats
from formulations.objectives import favoured, guarantee
from formulations.round.levels import with_pairs, worth_of_halves
from formulations.round.tables import Level, RoundProblem
from morph_opt.candidates.pairs import PairBuilder
from morph_opt.candidates.table import CandidateBuilder, RoundView
from morph_opt.decision.objective import Objective
from morph_opt.decision.promises import Promises
from morph_opt.domain import Cluster, RoundState
from morph_opt.perf.speed import SpeedModel
from morph_opt.perf.tables.pairs import PairSpeeds
from morph_opt.rules.compile import apply_rules, ranks_below
from morph_opt.rules.known import require_known_nodes
from morph_opt.rules.model import OperatorRules


@dataclass(frozen=True, slots=True)
class PosedRound:
    """A round as it is decided.

    Parameters
    ----------
    state
        The snapshot.
    plain
        Its tables without rules and pairs, from which the round can be posed otherwise.
    view
        Its tables, and what their indices mean.
    goals
        Of the objective, most important first; the last one is what the round is worth.
    unkept
        In their place where not every promise can be kept; as many at their end as there are goals.
    ranks
        Goals that operators rank below these.
    rules
        What the tables stand under.
    poser
        Who posed it.
    data
        What the objective observed of the snapshot; the goals are a function of it and the tables.
    """

    state: RoundState
    plain: RoundView
    view: RoundView
    goals: tuple[Level, ...]
    unkept: tuple[Level, ...]
    ranks: tuple[Level, ...]
    rules: OperatorRules
    poser: RoundPoser
    data: Any

    @property
    def problem(self) -> RoundProblem:
        """The tables."""
        return self.view.problem

    @property
    def levels(self) -> tuple[Level, ...]:
        """All goals, most important first."""
        return (*self.goals, *self.ranks)

    @property
    def unkept_levels(self) -> tuple[Level, ...]:
        """All goals where not every promise can be kept, most important first."""
        return (*self.unkept, *self.ranks)

    @property
    def worth(self) -> Level:
        """The goal that values and bounds are stated in: the objective's last."""
        return self.goals[-1]

    def worth_of(self, tried: tuple[Level, ...]) -> Level:
        """`worth`, or what stood in its place among the levels that were tried."""
        stood = any(level is self.unkept[-1] for level in tried)
        return self.unkept[-1] if stood else self.worth

    def pair_worth(self, worth: Level) -> Floats:
        """What each job of a pair is worth, shape (P, 2): candidate's job, partner.

        Parameters
        ----------
        worth
            One of `worth_of`.
        """
        if not self.problem.pairs.count:
            return np.zeros((0, 2))
        plain = worth is self.worth
        levels_of = self.poser.goals_of(self.data) if plain else self.poser.favoured_of(self.data)
        halves = worth_of_halves(levels_of, self.problem)[-1]
        return np.column_stack([halves[: halves.size // 2], halves[halves.size // 2 :]])

    def counterparts(self, other: PosedRound, candidates: tuple[int, ...]) -> tuple[int, ...]:
        """Candidates of this round that are what ``candidates`` are in another posing of it.

        Jobs alone have the same ones under all rules; pairs that rules keep apart have none.
        """
        here, there = self.problem, other.problem
        alone = there.candidates.count - there.pairs.count
        keys = {_pair_key(here, p): p for p in range(here.pairs.count)} if here.pairs.count else {}
        base = here.candidates.count - here.pairs.count
        found = [
            k if k < alone else base + keys[_pair_key(there, k - alone)]
            for k in candidates
            if k < alone or _pair_key(there, k - alone) in keys
        ]
        return tuple(found)

    def under(self, rules: OperatorRules) -> PosedRound:
        """The same round under other rules."""
        return self.poser.posed(self.state, self.plain, rules, self.data)

    def with_one_more_node(self, like: int) -> PosedRound:
        """The same round with another idle, open node of the class and at the place of ``like``.

        It stands behind the others, and rules that name node ``like`` are meant for it as well.
        Everything that a larger cluster makes possible is in the tables.
        """
        cluster = self.state.cluster
        one = replace(cluster.nodes[like], name=_fresh_name(cluster))
        larger = replace(cluster, nodes=(*cluster.nodes, one))
        state = replace(self.state, cluster=larger)
        rules = self.rules.with_node_like(cluster, like, one.name)
        return self.poser.posed(state, self.poser.tables().view(state), rules, self.data)


class RoundPoser:
    """Poses the rounds of one policy; keeps caches, no history of its own.

    Parameters
    ----------
    belief
        Speeds that the policy goes by.
    objective
        What rounds are worth.
    rules
        Operator's rules.
    packing
        Measured speeds of two jobs on the same GPUs; rounds then offer such pairs. None: no pairs.
    pairs
        Makes what offers them.
    promises
        How promises count in rounds in which they cannot all be kept; None: as a rank.
    """

    def __init__(
        self,
        belief: SpeedModel,
        objective: Objective[Any],
        rules: OperatorRules | None = None,
        packing: PairSpeeds | None = None,
        pairs: Callable[[PairSpeeds], PairBuilder] = PairBuilder,
        promises: Promises | None = None,
    ) -> None:
        self.belief = belief
        self.objective = objective
        self.rules = rules or OperatorRules()
        self.promises = promises or Promises()
        self._builder = self.tables()
        self._pairs = None if packing is None else pairs(packing)
        self._cluster: Cluster | None = None

    def tables(self) -> CandidateBuilder:
        """A fresh builder of the round's tables."""
        # A smallest gang may ask for a configuration that a faster one on fewer GPUs dominates.
        return CandidateBuilder(self.belief, prune=self.rules.smallest_gang == 1)

    def pose(self, state: RoundState) -> PosedRound:
        """The round of a snapshot, which the objective is shown.

        Raises
        ------
        InputError
            If a rule names nodes or GPU types that the cluster has none of.
        """
        if state.cluster is not self._cluster:
            require_known_nodes(self.rules, state.cluster)
            self._cluster = state.cluster
        plain = self._builder.view(state)
        return self.posed(state, plain, self.rules, self.objective.observe(state))

    def goals_of(self, data: Any) -> Callable[[RoundProblem], tuple[Level, ...]]:
        """Goals of tables, from what the objective observed."""
        return lambda problem: self.objective.levels(problem, data)

    def favoured_of(self, data: Any) -> Callable[[RoundProblem], tuple[Level, ...]]:
        """Goals in which the worth of guaranteed jobs is raised, as `Promises` says."""
        goals_of, factor = self.goals_of(data), self.promises.factor or 1.0
        return lambda problem: favoured(problem, goals_of(problem), factor)

    def _unkept(
        self, problem: RoundProblem, goals: tuple[Level, ...], data: Any
    ) -> tuple[Level, ...]:
        if not problem.jobs.guaranteed.any():
            return goals
        if self.promises.factor is None:
            return (guarantee(problem), *goals)
        return with_pairs(self.favoured_of(data), problem)

    def posed(
        self, state: RoundState, plain: RoundView, rules: OperatorRules, data: Any
    ) -> PosedRound:
        """The round of tables without rules and pairs, under these rules."""
        view = apply_rules(plain, state, rules)
        if self._pairs is not None:
            view = self._pairs.extended(view, state)
        goals = with_pairs(self.goals_of(data), view.problem)
        ranks = with_pairs(lambda problem: ranks_below(problem, rules), view.problem)
        unkept = self._unkept(view.problem, goals, data)
        return PosedRound(state, plain, view, goals, unkept, ranks, rules, self, data)


def _pair_key(problem: RoundProblem, pair: int) -> tuple[int, int, int, int]:
    """A pair by what it is made of: its jobs, and how each of them comes to it."""
    pairs = problem.pairs
    job = problem.candidates.job[problem.candidates.count - pairs.count + pair]
    return (
        int(job), int(pairs.partner[pair]),
        int(pairs.first_half[pair]), int(pairs.second_half[pair]),
    )  # fmt: skip


def _fresh_name(cluster: Cluster) -> str:
    """A name that no node of the cluster has."""
    name = "one-more"
    while name in cluster.node_index:
        name += "-more"
    return name
