"""Gandiva's slices with packing: a pair of jobs on the same GPUs is one gang.

Pairs are tried in order of utilisation and kept where their speeds add up to more than 1, while
there are more groups (jobs alone and pairs) than GPUs. Gangs of several GPUs are counted by these.
The measured speeds give the result of a trial. They have no utilisation; it is estimated from the
speed that two copies of a job keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from morph_opt.core.domain import Cluster, Job, JobState, RoundState, Shape, Span
from morph_opt.inputs.perf.speed import PairSpeeds, SpeedModel
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.gandiva.policy import GandivaSlices
from morph_opt.scheduling.policies.gandiva.sharing import Sharing

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PackingTask:
    """Jobs that may share GPUs.

    Parameters
    ----------
    gpus
        Number of GPUs in all.
    utilisation
        Utilisation of each job alone, by its name.
    speed
        Relative speeds of the two jobs of a pair, smaller name first.
    gang
        GPUs of each job; 1 if not given. Only equal gangs are paired.
    """

    gpus: int
    utilisation: Mapping[int, float]
    speed: Mapping[Pair, tuple[float, float]]
    gang: Mapping[int, int] = field(default_factory=dict)

    def together(self, one: int, other: int) -> float:
        """Return the sum of the relative speeds of a pair."""
        return sum(self.speed[min(one, other), max(one, other)])

    def fits(self, one: int, other: int) -> bool:
        """Return whether the speeds of a pair are known and its gangs equal."""
        known = (min(one, other), max(one, other)) in self.speed
        equal = self.gang.get(one, 1) == self.gang.get(other, 1)
        return known and equal


def by_trial(task: PackingTask) -> tuple[list[tuple[int, int, bool]], list[Pair]]:
    """Return the trials in order, each with whether it was kept, and the pairs kept."""
    order = sorted(task.utilisation, key=lambda job: (task.utilisation[job], job))
    trials: list[tuple[int, int, bool]] = []
    pairs: list[Pair] = []
    paired: set[int] = set()
    load = sum(task.gang.get(job, 1) for job in order)
    for one in order:
        for other in order:
            if one in paired or load <= task.gpus:
                break
            if other == one or other in paired or not task.fits(one, other):
                continue
            kept = task.together(one, other) > 1.0
            trials.append((one, other, kept))
            if kept:
                pairs.append((min(one, other), max(one, other)))
                paired |= {one, other}
                load -= task.gang.get(one, 1)
    return trials, sorted(pairs)


Relative = tuple[float, float]
"""Speeds of two jobs on the same GPUs relative to running alone."""


class PackedSlices(Policy):
    """Policy ``gandiva`` with packing.

    Parameters
    ----------
    belief, pairs
        Speeds that it goes by.
    any_affinity
        See `GandivaSlices`.
    """

    def __init__(
        self, belief: SpeedModel, pairs: PairSpeeds, *, any_affinity: bool = False
    ) -> None:
        self._slices = GandivaSlices(belief, any_affinity=any_affinity)
        self.name = self._slices.name
        self._sharing = Sharing(belief, pairs)
        self._belief, self._pairs = belief, pairs
        self._groups: dict[str, tuple[str, ...]] = {}
        self._parted: frozenset[frozenset[str]] = frozenset()
        self._cluster: Cluster | None = None
        self._asked: dict[tuple[object, ...], Relative | None] = {}

    def observe(self, state: RoundState) -> None:
        """See a round that is not decided here."""
        self._slices.observe(self._grouped(state))

    def decide(self, state: RoundState) -> Decision:
        """Decide the slices of single jobs and pairs."""
        decision = self._slices.decide(self._grouped(state))
        joined = self._sharing.joined(state, self._groups, decision.allocation)
        return replace(decision, allocation=joined)

    def _grouped(self, state: RoundState) -> RoundState:
        if state.cluster is not self._cluster:
            self._cluster = state.cluster
            self._asked.clear()
        known = {one.job.name: one for one in state.jobs}
        # A group keeps its name, and so its turn, when its first job completes.
        groups = {
            key: left
            for key, members in self._groups.items()
            if (left := tuple(member for member in members if member in known))
        }
        grouped = {member for members in groups.values() for member in members}
        groups |= {name: (name,) for name in known if name not in grouped}
        self._part(groups, known, state)
        self._pair(groups, known, state)
        self._groups = groups
        self._slices.rigid = frozenset(key for key, members in groups.items() if len(members) > 1)
        return self._sharing.grouped(state, groups)

    def _part(
        self, groups: dict[str, tuple[str, ...]], known: Mapping[str, JobState], state: RoundState
    ) -> None:
        """Separate jobs that could not share in the last round, or no longer need to."""
        pairs = {key: members for key, members in groups.items() if len(members) > 1}
        # One of them ran and the other waited, for lack of CPUs for example.
        failed = {
            key
            for key, (one, two) in pairs.items()
            if (known[one].running is None) != (known[two].running is None)
        }
        self._parted = frozenset(
            pair
            for pair in self._parted | {frozenset(pairs[key]) for key in failed}
            if pair <= known.keys()
        )
        spare = _open_gpus(state) - _load(groups, known)
        kept = {key: sum(self._kept(pairs[key], known) or (0.0,)) for key in pairs}
        for key in sorted(pairs, key=lambda key: (kept[key], key)):
            gang = known[pairs[key][0]].job.requested_gpus
            if key in failed or kept[key] <= 1.0 or gang <= spare:
                one, two = pairs[key]
                groups[key], groups[two] = (one,), (two,)
                spare -= gang

    def _pair(
        self, groups: dict[str, tuple[str, ...]], known: Mapping[str, JobState], state: RoundState
    ) -> None:
        """Try single jobs in pairs while the gangs exceed the GPUs."""
        gpus = _open_gpus(state)
        if _load(groups, known) <= gpus:
            return
        key_of = {members[0]: key for key, members in groups.items() if len(members) == 1}
        alone = sorted(name for name in key_of if not known[name].job.guaranteed)
        others = {key: members for key, members in groups.items() if members[0] not in alone}
        speed = {}
        for i, one in enumerate(alone):
            for j in range(i + 1, len(alone)):
                kept = self._kept((one, alone[j]), known)
                if kept is not None and frozenset((one, alone[j])) not in self._parted:
                    speed[i, j] = kept
        task = PackingTask(
            gpus - _load(others, known),
            {i: self._utilisation(known[name].job) for i, name in enumerate(alone)},
            speed,
            {i: known[name].job.requested_gpus for i, name in enumerate(alone)},
        )
        for i, j in by_trial(task)[1]:
            # The running job stays where it is, and the other comes to it.
            first, second = sorted((alone[i], alone[j]), key=lambda n: known[n].running is None)
            groups[key_of[first]] = (first, second)
            del groups[key_of[second]]

    def _utilisation(self, job: Job) -> float:
        """Return 1 / s for the summed relative speed s of two copies of a job; 1 if unknown."""
        kept = self._relative(job, job)
        return 1.0 if kept is None else 1.0 / sum(kept)

    def _kept(self, members: tuple[str, ...], known: Mapping[str, JobState]) -> Relative | None:
        one, two = (known[member].job for member in members)
        return self._relative(one, two)

    def _relative(self, one: Job, two: Job) -> Relative | None:
        """Return relative speeds on those GPUs of the cluster where their sum is least.

        None if they cannot share on some node type: slices move from server to server.
        """
        if one.requested_gpus != two.requested_gpus:
            return None
        kinds = (one.model, one.requested_plan), (two.model, two.requested_plan)
        key = (*kinds, one.requested_gpus)
        if key not in self._asked:
            assert self._cluster is not None
            found: list[Relative] = []
            for kind in self._cluster.node_types:
                shape = Shape.of(one.requested_gpus)
                models, plans = (one.model, two.model), (one.requested_plan, two.requested_plan)
                alone = [
                    self._belief.iteration_s(model, kind, shape, plan, Span.NODE)
                    for model, plan in kinds
                    if shape.gpus <= kind.gpus
                ]
                both = self._pairs.paired_iteration_s(models, plans, kind, shape) if alone else None
                if both is None or alone[0] is None or alone[1] is None:
                    found.clear()
                    break
                found.append((alone[0] / both[0], alone[1] / both[1]))
            self._asked[key] = min(found, key=sum, default=None)
        return self._asked[key]


def _open_gpus(state: RoundState) -> int:
    nodes = enumerate(state.cluster.nodes)
    return sum(node.type.gpus for index, node in nodes if index not in state.unavailable)


def _load(groups: Mapping[str, tuple[str, ...]], known: Mapping[str, JobState]) -> int:
    """Return the GPUs of all groups together."""
    return sum(known[members[0]].job.requested_gpus for members in groups.values())
