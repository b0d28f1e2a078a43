"""Gavel's policy ``gandiva``: random pairs while GPUs are short, equal shares for all.

As in the published code, pairs have equal gangs and are drawn when the shares are solved. They are
parted if the sum of their relative speeds over both jobs and all GPU types is below 1 (the paper's
Gandiva adds up over the two jobs), and if they cannot share on some type. Pairs that would be
parted at once, and jobs with a guarantee, are not tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from formulations.arrays import Floats
from morph_opt.core.domain import JobState, RoundState
from morph_opt.inputs.perf.gang import GangSpeeds
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.gandiva.sharing import Sharing
from morph_opt.scheduling.policies.gavel.policy import GavelRounds, begins_round
from morph_opt.scheduling.policies.objectives.deadlines import SloNames
from morph_opt.scheduling.shares.packed import PackedTargets
from morph_opt.scheduling.shares.policies import Shares

Worth = Callable[[str, str], float]
"""Function that returns the sum of the relative speeds of two jobs that share; 0 if they cannot."""


def gavel_shares(
    groups: Sequence[str], gang: Mapping[str, float], gpus: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Return Gavel's ``gandiva`` shares for given pairs: equal parts of every type.

    Parameters
    ----------
    groups, gang
        Jobs and pairs by name, and their gangs.
    gpus
        GPUs by type.
    """
    found = {}
    for group in groups:
        row = {kind: count / (len(groups) * gang[group]) for kind, count in gpus.items()}
        total = max(1.0, sum(row.values()))
        found[group] = {kind: share / total for kind, share in row.items()}
    return found


class EqualParts:
    """Equal shares of every GPU type for every job of a round."""

    def __init__(self) -> None:
        self.shares: Shares | None = None
        self.slos = SloNames()

    def observe(self, state: RoundState) -> None:
        """Compute the shares of the jobs of a round."""
        gpus = gpus_by_type(state)
        gang = {known.job.name: float(known.job.requested_gpus) for known in state.jobs}
        found = gavel_shares(list(gang), gang, gpus)
        x = np.asarray([list(row.values()) for row in found.values()]).reshape(-1, len(gpus))
        self.shares = Shares(x, np.zeros((0, len(gpus))), float(len(gang)), float(len(gang)))


def gpus_by_type(state: RoundState) -> dict[str, float]:
    """Return the GPUs of each type of the cluster, in its order."""
    found = dict.fromkeys((kind.name for kind in state.cluster.gpu_types), 0.0)
    for node in state.cluster.nodes:
        found[node.type.gpu_type.name] += node.type.gpus
    return found


class RandomPairs:
    """Random pairs of jobs, kept from solve to solve.

    Parameters
    ----------
    seed
        Seed; pairs depend on it and on all earlier calls.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._pairs: list[tuple[str, str]] = []

    def groups(self, gang: Mapping[str, int], gpus: float, worth: Worth) -> list[tuple[str, ...]]:
        """Return single jobs and pairs; ``gang`` has the GPUs of every job by submission."""
        self._pairs = [
            pair for pair in self._pairs if gang.keys() >= set(pair) and worth(*pair) >= 1.0
        ]
        if sum(gang.values()) <= gpus:
            return [(name,) for name in gang]
        paired = {name for pair in self._pairs for name in pair}
        alone = [name for name in gang if name not in paired]
        for _ in range(len(alone)):
            if len(alone) < 2:
                break
            one, other = self._random.sample(alone, 2)
            if gang[one] == gang[other] and worth(one, other) > 0.0:
                alone = [name for name in alone if name not in (one, other)]
                self._pairs.append((one, other))
        return [*self._pairs, *((name,) for name in alone)]


class _GroupRounds(GavelRounds):
    """Gavel's rounds over groups, with shares solved again only if a round begins."""

    def due(self, state: RoundState, names: Iterable[str]) -> bool:
        """See `GavelRounds.due`."""
        return begins_round(state) and super().due(state, names)


class GavelPairs(Policy):
    """Policy ``gavel:gandiva``.

    Parameters
    ----------
    belief
        Speed model.
    packing
        Measured speeds of pairs; None for no pairs.
    seed
        Seed of the pairs.
    """

    name = "gavel:gandiva"

    def __init__(self, belief: SpeedModel, packing: PairSpeeds | None, seed: int = 0) -> None:
        self._rounds = _GroupRounds(belief, "gandiva", book=EqualParts())
        self._speeds = GangSpeeds(belief)
        self._sharing = Sharing(belief, packing) if packing is not None else None
        self._targets = PackedTargets(packing) if packing is not None else None
        self._drawn = RandomPairs(seed)
        self._groups: dict[str, tuple[str, ...]] = {}
        self._since_s: dict[str, dict[str, float]] = {}
        self._solved_for: frozenset[str] = frozenset()
        self._made = 0

    def observe(self, state: RoundState) -> None:
        """See a round that is not decided here."""
        self._rounds.observe(self._grouped(state))

    def decide(self, state: RoundState) -> Decision:
        """Decide Gavel's rounds over groups."""
        if self._sharing is None:
            return self._rounds.decide(state)
        decision = self._rounds.decide(self._grouped(state))
        joined = self._sharing.joined(state, self._groups, decision.allocation)
        return replace(decision, allocation=joined)

    def _grouped(self, state: RoundState) -> RoundState:
        if self._sharing is None or not state.jobs:
            return state
        known = {one.job.name: one for one in state.jobs}
        groups = {
            name: left
            for name, members in self._groups.items()
            if (left := tuple(member for member in members if member in known))
        }
        if known.keys() != self._solved_for and self._rounds.due(state, groups):
            self._solved_for = frozenset(known)
            gang = {name: one.job.requested_gpus for name, one in known.items()}
            gpus = sum(gpus_by_type(state).values())
            wanted = self._drawn.groups(gang, gpus, self._worth(state, known))
        else:
            placed = {member for members in groups.values() for member in members}
            wanted = [*groups.values(), *((name,) for name in known if name not in placed)]
        self._regroup(groups, wanted, known)
        executed_s = {
            name: max(known[one].executed_s - self._since_s[name][one] for one in members)
            for name, members in self._groups.items()
        }
        return self._sharing.grouped(state, self._groups, executed_s)

    def _regroup(
        self,
        groups: dict[str, tuple[str, ...]],
        wanted: list[tuple[str, ...]],
        known: Mapping[str, JobState],
    ) -> None:
        """Keep the names of continued groups; new ones start with no time received."""
        names = {members: name for name, members in groups.items()}
        self._groups = {}
        for members in wanted:
            name = names.get(members)
            if name is None:
                self._made += 1
                name = str(self._made)
                self._since_s[name] = {one: known[one].executed_s for one in members}
            self._groups[name] = members
        self._since_s = {name: self._since_s[name] for name in self._groups}

    def _worth(self, state: RoundState, known: Mapping[str, JobState]) -> Worth:
        targets, speeds = self._targets, self._speeds
        assert targets is not None
        targets.use(state.cluster)
        speeds.use(state.cluster)

        def worth(one: str, other: str) -> float:
            first, second = known[one], known[other]
            if first.job.guaranteed or second.job.guaranteed:
                return 0.0
            both: Floats = targets.together(first, second, first.job.requested_gpus)
            if not (both > 0).all():
                return 0.0
            alone = np.stack([speeds.row(first.job), speeds.row(second.job)], axis=1)
            return float((both / alone).sum())

        return worth
