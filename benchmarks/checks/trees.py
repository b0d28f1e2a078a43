"""Check Kueue's cycles on random sites: ``python -m benchmarks.checks.trees [TREES]``.

A site has cohorts of up to three levels, queues with any policies, two flavors, one of which may
have a topology of racks and nodes. At a few instants workloads arrive and end, and cycles run until
one changes nothing. After every cycle no node of the tree exceeds its limits, no node of the
topology has more pods than it takes, usage is the sum of what is held, and each workload is held,
waits, or has ended. Cycles after the last change nothing. The status is 1 if any of this fails.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from functools import partial

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.commandline.running import run_command
from morph_opt.core.commandline.types import whole
from morph_opt.core.domain.quotas import Quota, QuotaNode
from morph_opt.inputs.kueue.kube import HOST
from morph_opt.inputs.kueue.queues import Cohort, Flavor, Group, Preemption, Queue, Queues, Slot
from morph_opt.scheduling.kueue.domains import PODS, Topology, TopologyNode
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.places import topology_unsuited
from morph_opt.scheduling.kueue.rounds import cycles
from morph_opt.scheduling.kueue.site import Settings, Site, Snapshot
from morph_opt.scheduling.kueue.workloads import PER_UNIT, Held, PodSet, TopologyRequest, Workload

GPU = "nvidia.com/gpu"
FLAVORS = ("main", "spot")
LEVELS = ("rack", HOST)
INSTANTS, ARRIVALS = 3, 4
"""Instants of a site, and workloads that arrive at each."""


def random_site(rng: random.Random) -> Site:
    """Return cohorts of up to three levels, up to six queues, two flavors and any policies."""
    cohorts = [Cohort("c0", "", _quotas(rng, 0.4))]
    for number in range(1, rng.randint(1, 4)):
        parent = rng.choice(cohorts).name
        cohorts.append(Cohort(f"c{number}", parent, _quotas(rng, 0.4), rng.choice((0.0, 1.0, 2.0))))
    queues = [_queue(rng, f"q{number}", cohorts) for number in range(rng.randint(2, 6))]
    topology = rng.choice(("", "", "tree"))
    flavors = {"main": Flavor("main", {}, topology=topology), "spot": Flavor("spot", {})}
    listed = Queues({q.name: q for q in queues}, {c.name: c for c in cohorts}, flavors)
    fair, sorted_ = rng.random() < 0.5, rng.random() < 0.7
    balanced = rng.random() < 0.2
    return Site(listed, Settings(fair_sharing=fair, by_priority=sorted_, balanced=balanced))


def _queue(rng: random.Random, name: str, cohorts: Sequence[Cohort]) -> Queue:
    quotas = _quotas(rng, 1.0)
    rules = Preemption(
        rng.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
        rng.choice(("Never", "LowerPriority", "Any")),
        rng.choice(("Never", "LowerPriority")),
        rng.choice((None, 0, 1)),
    )
    return Queue(
        name,
        rng.choice(["", *(one.name for one in cohorts)]),
        (Group((GPU,), FLAVORS),),
        quotas,
        strict=rng.random() < 0.4,
        preemption=rules,
        weight=rng.choice((0.0, 1.0, 3.0)),
    )


def _quotas(rng: random.Random, chance: float) -> dict[Slot, Quota]:
    return {
        (flavor, GPU): Quota(
            rng.randint(0, 12),
            rng.choice((None, rng.randint(0, 8))),
            rng.choice((None, rng.randint(0, 8))),
        )
        for flavor in FLAVORS
        if rng.random() < chance
    }


def random_jobs(rng: random.Random, among: Site, count: int) -> list[Workload]:
    """Return workloads of one or two pod sets, some with less pods or a place asked for."""
    return [
        Workload(
            f"team/j{number}",
            rng.choice(list(among.queues.queues)),
            tuple(_pods(rng, at) for at in range(rng.choice((1, 1, 2)))),
            rng.randint(-1, 2),
            float(rng.randint(0, 9)),
        )
        for number in range(count)
    ]


def _pods(rng: random.Random, at: int) -> PodSet:
    requests = {GPU: rng.choice((0.5, 1, 2, 4))}
    count = rng.randint(1, 4)
    least = rng.choice((None, rng.randint(1, count)))
    place = rng.choice((
        None, TopologyRequest("rack"), TopologyRequest("", "rack"), TopologyRequest(HOST),
        TopologyRequest(unconstrained=True),
    ))  # fmt: skip
    # Kueue looks at the places of one pod set at a time when others took some in its cycle, so two
    # of a workload may exceed a node: the first alone asks for one.
    return PodSet(requests, count, f"set{at}", least, topology=None if at else place)


def snapshot_of(site: Site) -> Snapshot:
    """Return the empty snapshot of a site, with four nodes of 4 GPUs in two racks."""
    nodes = [
        TopologyNode(f"n{at}", {"rack": f"r{at // 2}", HOST: f"n{at}"},
                     {GPU: 4 * PER_UNIT, PODS: 99 * PER_UNIT})
        for at in range(4)
    ]  # fmt: skip
    flavors = site.queues.flavors.values()
    topologies = {one.name: Topology(LEVELS, nodes) for one in flavors if one.topology}
    snapshot = Snapshot(site, topologies=topologies)
    if topologies:
        snapshot.suits = partial(topology_unsuited, snapshot)
    return snapshot


def faults(seed: int) -> Iterator[str]:
    """Yield what is wrong after any cycle of the site of a seed."""
    rng = random.Random(seed)
    site = random_site(rng)
    snapshot, pending = snapshot_of(site), Pending(site)
    jobs, ended = random_jobs(rng, site, INSTANTS * ARRIVALS), list[str]()
    for now_s in range(INSTANTS):
        pending.due(float(now_s))
        arrived = jobs[: ARRIVALS * (now_s + 1)]
        for one in arrived[-ARRIVALS:]:
            pending.add(one)
        running = _held(snapshot)
        for held in rng.sample(running, len(running) // 3):
            snapshot.remove(held)
            ended.append(held.workload.name)
            pending.wake(held.workload.queue, float(now_s))
        for number, result in enumerate(cycles(snapshot, pending, float(now_s))):
            where = f"tree {seed}, instant {now_s}, cycle {number}"
            yield from (f"{where}: {fault}" for fault in _beyond(snapshot))
            preempted = {one.held.workload.name for one, _ in result.victims}
            if twice := preempted & {one.workload.name for one in _held(snapshot)}:
                yield f"{where}: {', '.join(twice)} ended and is held"
        known = [*ended, *(one.workload.name for one in _held(snapshot))]
        for queue in site.queues.queues:
            known += [name for part in pending.of(queue) for name in part]
        if sorted(known) != sorted(one.name for one in arrived):
            yield f"tree {seed}, instant {now_s}: workloads are lost or there twice"
        if any(one.changed for one in cycles(snapshot, pending, float(now_s))):
            yield f"tree {seed}, instant {now_s}: cycles after the last change something"


def _held(snapshot: Snapshot) -> list[Held]:
    return [one for mine in snapshot.held.values() for one in mine.values()]


def _beyond(snapshot: Snapshot) -> Iterator[str]:
    """Yield the nodes beyond limits or with wrong usage, and domains with too many pods."""
    fresh = snapshot_of(snapshot.site)
    for held in _held(snapshot):
        fresh.add(held)
    for flavor in FLAVORS:
        for key in snapshot.site.above:
            node = snapshot.node((flavor, GPU), key)
            if node.usage != fresh.node((flavor, GPU), key).usage:
                yield f"{key} uses {node.usage} of {flavor}, and not what is held"
            if _over(node):
                yield f"{key} is beyond its limits of {flavor}"
    for flavor, topology in snapshot.topologies.items():
        used = snapshot.used[flavor]
        for place, leaf in topology.leaves.items():
            if any(amount < 0 for amount in used.left(leaf, place).values()):
                yield f"more pods are on {place[-1]} than it takes"
            if used.left(leaf, place) != fresh.used[flavor].left(leaf, place):
                yield f"usage of {place[-1]} is not what is held"


def _over(node: QuotaNode) -> bool:
    """Return whether a node holds more than its quota and what it may borrow."""
    if node.above is None:
        return node.usage > node.subtree
    if node.limits.borrow is None:
        return False
    return max(0, node.usage - node.kept) > node.subtree - node.kept + node.limits.borrow


def make_parser() -> LineParser:
    """Return the parser."""
    parser = LineParser(prog="python -m benchmarks.checks.trees", description=__doc__)
    parser.add_argument("trees", nargs="?", type=whole(1, 10**7), default=1_000, metavar="TREES")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Check random sites and return 1 if something is wrong."""
    return run_command(make_parser(), _run, argv)


def _run(given: argparse.Namespace) -> int:
    wrong = [fault for seed in range(given.trees) for fault in faults(seed)]
    print(*wrong[:20], sep="\n", end="\n" if wrong else "")
    print(f"{given.trees} trees, {len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
