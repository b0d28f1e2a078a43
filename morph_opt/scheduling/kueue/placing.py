"""Placement of pod sets in the domains of a topology, as Kueue's topology-aware scheduling does.

Counts of pods that fit go up the tree; at the level that is asked for, or above, the fewest domains
are chosen; and down the tree each level gets as few domains as it can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from morph_opt.scheduling.kueue.balanced import Balance, balanced
from morph_opt.scheduling.kueue.domains import PODS, Domain, Topology, Used, fitting
from morph_opt.scheduling.kueue.workloads import PER_UNIT, PodSet, TopologyRequest
from morph_opt.scheduling.kueue.workloads import Domain as PodsAt


@dataclass(frozen=True, slots=True)
class Ask:
    """Pod set that is to be placed.

    Parameters
    ----------
    pods, count
        The pod set and the number of its pods.
    implied
        Whether it is placed only because every flavor of its queue has a topology.
    """

    pods: PodSet
    count: int
    implied: bool = False

    @property
    def requests(self) -> dict[str, int]:
        """Thousandths that a pod asks for, with itself."""
        return {**self.pods.amounts(1), PODS: PER_UNIT}


@dataclass(frozen=True, slots=True)
class Profile:
    """Profiles of placement; see `morph_opt.scheduling.kueue.site.Settings`."""

    mixed: bool = True
    balanced: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Domains of pod sets by name, or why they do not fit and which pod set it is."""

    domains: Mapping[str, tuple[PodsAt, ...]] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    why: str = ""
    failed: str = ""


def place(
    topology: Topology,
    asks: Sequence[Ask],
    beside: Used,
    profile: Profile = Profile(),
) -> Answer:
    """Return the domains of pod sets of one flavor, each beside those before it.

    Parameters
    ----------
    topology
        The domains.
    asks
        Pod sets; two of one group are a leader of one pod and its workers, placed together.
    beside
        What others use; the pod sets that are placed are added.
    profile
        How domains are chosen.
    """
    groups: dict[str, list[Ask]] = {}
    for at, ask in enumerate(asks):
        name = ask.pods.topology.group if ask.pods.topology is not None else ""
        groups.setdefault(name or f"/{at}", []).append(ask)
    found: dict[str, tuple[PodsAt, ...]] = {}
    levels = topology.levels[-1:] if topology.of_nodes else topology.levels
    for members in groups.values():
        workers, leader = members[0], members[1] if len(members) > 1 else None
        if leader is not None and leader.count > workers.count:
            workers, leader = leader, workers
        placed, why = _Search(topology, workers, leader, beside, profile).run()
        if why:
            return Answer(found, levels, why, members[0].pods.name)
        for ask in members:
            found[ask.pods.name] = domains = placed.get(ask.pods.name, ())
            for values, pods in domains:
                beside.add(values, ask.pods.amounts(1), pods)
    return Answer(found, levels)


def level_of(topology: Topology, request: TopologyRequest | None, *, implied: bool) -> str:
    """Return the level at which pods are to be together; "" if none is asked for."""
    if request is not None:
        if request.required or request.preferred:
            return request.required or request.preferred
        if request.slices:
            return topology.levels[0]
        if request.unconstrained:
            return topology.levels[-1]
    return topology.levels[-1] if implied else ""


class _Search:
    """Search for the domains of a pod set with its leader."""

    def __init__(
        self, topology: Topology, workers: Ask, leader: Ask | None, used: Used, profile: Profile
    ) -> None:
        self.topology, self.workers, self.leader, self.used = topology, workers, leader, used
        self.profile = profile
        request = workers.pods.topology
        self.count, self.leaders = workers.count, 0 if leader is None else 1
        self.required = request is not None and bool(request.required)
        only_slices = (
            request is not None
            and bool(request.slices)
            and not (request.required or request.preferred)
        )
        self.anywhere = (
            workers.implied or only_slices or (request is not None and request.unconstrained)
        )
        self.least = self.anywhere and profile.mixed
        self.slices = request.slices if request is not None else ()
        self.size = self.slices[0][1] if self.slices else 1
        self.inner: dict[int, int] = {}
        self.level = self.slice_level = 0

    def run(self) -> tuple[dict[str, tuple[PodsAt, ...]], str]:
        """Return the domains of workers and leader, or why there are none."""
        if why := self._set_levels():
            return {}, why
        self._fill()
        chosen: list[Domain] | None = None
        at = self.level
        by_parts = False
        if self.profile.balanced and not self.required and not self.anywhere:
            balance = Balance(
                self.count, self.size, self.leaders, self.level, self.slice_level, self
            )
            chosen, at = balanced(balance, self.topology)
            by_parts = chosen is not None
        if chosen is None:
            at, chosen = self._fit(self.level)
            if not chosen:
                return {}, self._short()
        last = len(self.topology.levels) - 1
        chosen = self._given(chosen, self.count, self.leaders, self.size, slices=True)
        while at < min(last, self.slice_level) and not by_parts:
            below = self.ordered([child for one in chosen for child in one.children])
            chosen = self._given(below, self.count, self.leaders, self.size, slices=True)
            at += 1
        while at < last:
            size = self.size if at < self.slice_level else self.inner.get(at + 1, 1)
            lower: list[Domain] = []
            for one in chosen:
                below = self.ordered(one.children)
                if size > 1:
                    for child in below:
                        child.slices, child.slices_led = child.pods // size, child.pods_led // size
                lower += self._given(below, one.pods, one.leaders, size, slices=size > 1)
            chosen, at = lower, at + 1
        found = {self.workers.pods.name: self._named([(d, d.pods) for d in chosen])}
        if self.leader is not None:
            led = [(d, d.leaders) for d in chosen]
            found[self.leader.pods.name] = self._named(led)
        return found, ""

    def _short(self) -> str:
        """Return how many of the pods have room."""
        rooms = [one.pods for one in self.topology.by_level[self.level].values()]
        name, count = self.topology.levels[self.level], f"{self.count} pods"
        if self.slices:
            count += f" in slices of {self.size}"
        if self.required:
            return (
                f"no {name} has room for {count}, the emptiest has room for {max(rooms, default=0)}"
            )
        return f"all nodes together have room for {sum(rooms)} of {count}"

    def _named(self, domains: Sequence[tuple[Domain, int]]) -> tuple[PodsAt, ...]:
        ordered = sorted(domains, key=lambda one: one[0].values)
        return tuple((self.topology.key(d.values), pods) for d, pods in ordered if pods)

    def _set_levels(self) -> str:
        """Find the levels that are asked for; return why there are none."""
        levels, request = self.topology.levels, self.workers.pods.topology
        name = level_of(self.topology, request, implied=self.workers.implied)
        if not name:
            return "no level of a topology is asked for"
        outer = self.slices[0][0] if self.slices else levels[-1]
        for one in (name, outer, *(layer for layer, _ in self.slices)):
            if one not in levels:
                return f"the topology has no level {one}"
        if self.slices and self.size <= 0:
            return "slices are asked for without their size"
        self.level, self.slice_level = levels.index(name), levels.index(outer)
        if self.level > self.slice_level:
            return f"slices of {outer} are above {name}"
        size, above = self.size, self.slice_level
        for layer, less in self.slices[1:]:
            at = levels.index(layer)
            if at <= above or less <= 0 or size % less:
                return f"slices of {less} in {layer} do not divide those of {size} above"
            self.inner |= dict.fromkeys(range(above + 1, at + 1), less)
            size, above = less, at
        return ""

    # --- counts, from the leaves up -----------------------------------------------------------

    def _fill(self) -> None:
        for top in self.topology.by_level[0].values():
            top.clear()
        requests = self.workers.requests
        for key, leaf in self.topology.open_to(self.workers.pods):
            left = self.used.left(leaf, key)
            leaf.pods = fitting(requests, left)
            if self.leader is not None and fitting(self.leader.requests, left):
                leaf.leaders = 1
                for resource, amount in self.leader.requests.items():
                    left[resource] = left.get(resource, 0) - amount
            leaf.pods_led = fitting(requests, left)
        for top in self.topology.by_level[0].values():
            self.sum_up(top, 0)

    def sum_up(self, domain: Domain, level: int, *, inner: bool = True) -> None:
        """Compute the counts of a domain from those of its lowest domains."""
        if domain.children:
            sizes = self.inner if inner else {}
            size = sizes.get(level + 1, 1)
            pods = slices = leaders = 0
            less_pods: list[int] = []
            less_slices: list[int] = []
            for child in domain.children:
                self.sum_up(child, level + 1, inner=inner)
                mine, led = child.pods // size * size, child.pods_led // size * size
                pods, slices = pods + mine, slices + child.slices
                leaders = max(leaders, child.leaders)
                if not self.leaders or child.leaders:
                    less_pods.append(mine - led)
                    less_slices.append(child.slices - child.slices_led)
            domain.pods, domain.slices, domain.leaders = pods, slices, leaders
            domain.pods_led = pods - min(less_pods) if less_pods else 0
            domain.slices_led = slices - min(less_slices) if less_slices else 0
        if level == self.slice_level:
            domain.slices = domain.pods // self.size
            domain.slices_led = domain.pods_led // self.size

    # --- orders -------------------------------------------------------------------------------

    def ordered(self, domains: Sequence[Domain]) -> list[Domain]:
        """Return domains with the most slices first, or the fewest where any node will do."""
        sign = 1 if self.least else -1
        return sorted(domains, key=lambda d: (sign * d.slices, d.pods, d.values))

    def led(self, domains: Sequence[Domain]) -> list[Domain]:
        """Return domains by the slices beside a leader, those with room for a leader first."""
        sign = 1 if self.least else -1
        return sorted(
            domains, key=lambda d: (-d.leaders, sign * d.slices_led, d.pods_led, d.values)
        )

    def _tightest(
        self, domains: Sequence[Domain], need: int, leaders: int, *, slices: bool
    ) -> Domain:
        """Return the first domain that fits with the least to spare; the first if none does."""

        def count(one: Domain) -> int:
            if slices:
                return one.slices_led if leaders else one.slices
            return one.pods_led if leaders else one.pods

        fits = [one for one in domains if one.leaders >= leaders and count(one) >= need]
        return min(fits, key=count, default=domains[0])

    def _leader_first(
        self, domains: list[Domain], count: int, leaders: int, size: int, *, slices: bool
    ) -> list[Domain]:
        """Move a domain to the front that has room for the leader and costs no needed room."""
        if not leaders or len(domains) < 2:
            return domains
        need = count // size if slices else count
        room = sum(one.slices if slices else one.pods for one in domains)
        for at, one in enumerate(domains):
            cost = one.slices - one.slices_led if slices else one.pods - one.pods_led
            if one.leaders >= leaders and room - cost >= need:
                return [one, *domains[:at], *domains[at + 1 :]]
        return domains

    # --- choice of domains --------------------------------------------------------------------

    def _fit(self, level: int) -> tuple[int, list[Domain]]:
        """Return the level, that asked for or above, and its domains with room for all."""
        domains = list(self.topology.by_level[level].values())
        if not domains:
            return level, []
        ordered = self.led(domains)
        need, top = self.count // self.size, ordered[0]
        if self.least:
            for one in ordered:
                room = one.slices_led if self.leaders else one.slices
                if one.leaders >= self.leaders and room >= need:
                    return level, [one]
            if self.required:
                return level, []
        elif top.slices_led >= need and top.leaders >= self.leaders:
            top = self._tightest(ordered, need, self.leaders, slices=True)
        if top.slices_led >= need and top.leaders >= self.leaders:
            return level, [top]
        if self.required:
            return level, []
        if level > 0 and not self.anywhere:
            return self._fit(level - 1)
        return level, self._spread(ordered, need)

    def _spread(self, ordered: list[Domain], need: int) -> list[Domain]:
        """Return several domains with room for all together; [] if there are none."""
        found: list[Domain] = []
        leaders = self.leaders
        ordered = self._leader_first(ordered, self.count, leaders, self.size, slices=True)
        at = 0
        while leaders > 0 and at < len(ordered) and ordered[at].leaders > 0:
            one = ordered[at]
            if not self.least and one.slices_led >= need:
                one = self._tightest(ordered[at:], need, leaders, slices=True)
            found.append(one)
            leaders -= one.leaders
            need -= one.slices_led
            at += 1
        if leaders > 0:
            return []
        rest = self.ordered(ordered[at:])
        for at, first in enumerate(rest):
            if need <= 0:
                break
            one = first
            if not self.least and one.slices >= need:
                one = self._tightest(rest[at:], need, 0, slices=True)
            found.append(one)
            need -= one.slices
        return found if need <= 0 else []

    def _given(
        self, domains: list[Domain], count: int, leaders: int, size: int, *, slices: bool
    ) -> list[Domain]:
        """Give pods to as few domains as will do, and return these with what they are given."""
        domains = self._leader_first(domains, count, leaders, size, slices=slices)
        left = count // size if slices else count
        unit = size if slices else 1
        found: list[Domain] = []
        for at, first in enumerate(domains):
            one, led = first, leaders > 0
            if led:
                room = one.slices_led if slices else one.pods_led
            else:
                room = one.slices if slices else one.pods
            if not self.least and room >= left and (not led or one.leaders >= leaders):
                one = self._tightest(domains[at:], left, leaders, slices=slices)
                if led:
                    room = one.slices_led if slices else one.pods_led
                else:
                    room = one.slices if slices else one.pods
            taken = min(room, left)
            done = room >= left and (not led or one.leaders >= leaders)
            one.leaders = min(one.leaders, leaders) if led else 0
            one.pods = taken * unit
            if slices:
                one.slices = taken
            left -= taken
            leaders -= one.leaders
            found.append(one)
            if done:
                break
        return found
