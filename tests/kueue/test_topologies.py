"""Topology-aware scheduling: domains of pod sets, and cycles whose pods need places."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from morph_opt.inputs.kueue.kube import HOST
from morph_opt.inputs.kueue.queues import Preemption
from morph_opt.scheduling.kueue.cycle import Head, Outcome, cycle
from morph_opt.scheduling.kueue.domains import Topology, TopologyNode, Used, fitting
from morph_opt.scheduling.kueue.places import topology_unsuited
from morph_opt.scheduling.kueue.placing import Answer, Ask, Profile, place
from morph_opt.scheduling.kueue.site import Site, Snapshot
from morph_opt.scheduling.kueue.workloads import Held, Placed, PodSet, TopologyRequest, Workload
from tests.kueue.sites import GPU, queue, site

RACK = "rack"


def nodes(**gpus: int) -> list[TopologyNode]:
    """Nodes by name, whose first letter is their rack, with pods for all GPUs and more."""
    return [
        TopologyNode(name, {RACK: name[0], HOST: name}, {GPU: 1000 * n, "pods": 1000 * (n + 4)})
        for name, n in gpus.items()
    ]


def tree(**gpus: int) -> Topology:
    return Topology((RACK, HOST), nodes(**gpus))


def pods(count: int, gpus: float = 1, name: str = "main", **request: object) -> PodSet:
    return PodSet({GPU: gpus}, count, name, topology=TopologyRequest(**request))  # type: ignore[arg-type]


def placed(where: Topology, *sets: PodSet, **profile: bool) -> Answer:
    return place(where, [Ask(one, one.count) for one in sets], Used(), Profile(**profile))


def at(found: Answer, name: str = "main") -> dict[str, int]:
    return {values[-1]: count for values, count in found.domains[name]}


def test_the_rack_that_is_needed_is_the_tightest_that_fits() -> None:
    found = placed(tree(a1=4, a2=4, b1=3, b2=3), pods(5, required=RACK))
    assert at(found) == {"b1": 3, "b2": 2}
    assert placed(tree(a1=4, a2=4), pods(9, required=RACK)).failed == "main"


def test_a_preferred_rack_gives_way_to_several() -> None:
    assert at(placed(tree(a1=2, b1=2), pods(3, preferred=RACK))) == {"a1": 2, "b1": 1}
    assert placed(tree(a1=2, b1=2), pods(3, required=RACK)).why


def test_unconstrained_pods_fill_the_fullest_nodes_first() -> None:
    where, asked = tree(a1=4, a2=2, b1=1), pods(3, unconstrained=True)
    assert at(placed(where, asked)) == {"a1": 3}
    assert at(placed(where, pods(6, unconstrained=True))) == {"b1": 1, "a2": 2, "a1": 3}
    assert at(placed(where, asked, mixed=False)) == {"a1": 3}


def test_slices_stay_together() -> None:
    asked = pods(4, required=RACK, slices=((HOST, 2),))
    assert at(placed(tree(a1=3, a2=3), asked)) == {"a1": 2, "a2": 2}
    assert placed(tree(a1=1, a2=3), asked).failed == "main"
    assert "divide" in placed(tree(a1=3), pods(4, required=RACK, slices=((RACK, 4), (HOST, 3)))).why


def test_a_leader_is_with_its_workers() -> None:
    leader = pods(1, 2, "leader", required=RACK, group="one")
    workers = pods(3, 1, "workers", required=RACK, group="one")
    found = placed(tree(a1=4, b1=3, b2=2), leader, workers)
    assert (at(found, "leader"), at(found, "workers")) == ({"b1": 1}, {"b1": 1, "b2": 2})


def test_a_balanced_placement_spreads_evenly() -> None:
    where, asked = tree(a1=7, a2=5), pods(10, preferred=HOST)
    assert at(placed(where, asked)) == {"a1": 7, "a2": 3}
    assert at(placed(where, asked, balanced=True)) == {"a1": 5, "a2": 5}


def test_taints_labels_and_closed_nodes_are_left_out() -> None:
    open_, tainted, closed = nodes(a1=1, a2=1, a3=1)
    tainted = replace(tainted, taints=(("gpu", "yes", "NoSchedule"),))
    where = Topology((RACK, HOST), [open_, tainted, replace(closed, open=False)])
    asked = pods(2, unconstrained=True)
    assert placed(where, asked).failed == "main"
    bears = replace(asked, tolerations=(("gpu", "Exists", "", ""),))
    assert at(placed(where, bears)) == {"a1": 1, "a2": 1}
    assert placed(where, replace(bears, selector={HOST: "a1"})).failed == "main"


@pytest.mark.parametrize("seed", range(60))
def test_random_placements_hold_what_was_asked_for(seed: int) -> None:
    """Pods add up, fit their nodes, keep slices together, and need one rack if they must."""
    rng = random.Random(seed)
    gpus = {f"{rack}{n}": rng.randint(0, 8) for rack in "abc" for n in range(rng.randint(1, 4))}
    where, used, size = tree(**gpus), Used(), rng.choice((1, 2, 3))
    for number in range(6):
        must = rng.random() < 0.5
        level, count = rng.choice((RACK, HOST)), size * rng.randint(1, 4)
        slices = ((HOST, size),) if size > 1 else ()
        asked = pods(
            count, rng.choice((1, 2)), f"p{number}", slices=slices,
            required=level if must else "", preferred="" if must else level,
        )  # fmt: skip
        before = used.copy()
        profile = Profile(rng.random() < 0.5, rng.random() < 0.5)
        found = place(where, [Ask(asked, count)], used, profile)
        if found.why:
            assert used == before
            continue
        domains = found.domains[asked.name]
        assert sum(n for _, n in domains) == count
        for key, n in domains:
            assert n % size == 0
            assert fitting(asked.amounts(1), before.left(where.leaves[key], key)) >= n
        racks = Counter(key[0][0] for key, _ in domains)
        assert not must or len(racks if level == RACK else domains) == 1


def snapshot(among: Site, where: Topology, *holding: Held) -> Snapshot:
    found = Snapshot(among, topologies={"main": where})
    found.suits = partial(topology_unsuited, found)
    for one in holding:
        found.add(one)
    return found


def topological(*queues_: object, **settings: object) -> Site:
    found = site(*queues_, **settings)  # type: ignore[arg-type]
    flavors = found.queues.flavors
    found.queues.flavors = {name: replace(one, topology="t") for name, one in flavors.items()}
    return found


def workload(name: str, queue_: str, *sets: PodSet, priority: int = 0) -> Workload:
    return Workload(f"team/{name}", queue_, sets, priority)


def test_a_workload_with_quota_and_no_place_preempts_or_waits() -> None:
    among = topological(queue("a", 20, preemption=Preemption("LowerPriority")))
    low = workload("low", "a", pods(3, required=HOST), priority=-1)
    where = tree(a1=4, b1=2)
    domains = ((("a1",), 3),)
    on = Held(low, (Placed("main", 3, {GPU: "main"}, {GPU: 3000}, domains, (HOST,)),), 0.0)
    high = workload("high", "a", pods(4, required=HOST))
    result = cycle(snapshot(among, where, on), [Head(high)], 0.0)
    assert [v.held.workload.name for v, _ in result.victims] == ["team/low"]
    never = workload("never", "a", pods(5, required=HOST))
    (one,) = cycle(snapshot(among, where, on), [Head(never)], 0.0).nominees
    assert (one.outcome, one.reason) == (Outcome.NO_FIT, "TopologyPlacementFailed")


def test_two_heads_do_not_get_one_place() -> None:
    among = topological(queue("a", 4, "all"), queue("b", 4, "all"))
    both = [Head(workload(q, q, pods(3, required=HOST))) for q in "ab"]
    result = cycle(snapshot(among, tree(a1=4, b1=3)), both, 0.0)
    assert [one.placed[0].domains for one in result.admitted] == [
        ((("b1",), 3),),
        ((("a1",), 3),),
    ]


def test_pods_without_a_request_are_placed_where_every_flavor_has_a_topology() -> None:
    among = topological(queue("a", 4))
    plain = workload("plain", "a", PodSet({GPU: 1}, 2))
    (held,) = cycle(snapshot(among, tree(a1=1, b1=4)), [Head(plain)], 0.0).admitted
    assert held.placed[0].domains == ((("b1",), 2),)
