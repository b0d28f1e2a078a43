"""AlloX: the matching against every schedule of tiny cases, the round by hand."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from morph_opt.scheduling.policies.allox import least_total
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from tests.policies.worlds import LINEAR, cluster, counts, grants, queued, running, state


def by_enumeration(work_s: np.ndarray, machines: list[int]) -> float:
    """Least sum of completion times over all assignments to machines and orders on them."""
    kinds = np.repeat(np.arange(len(machines)), machines)
    best = np.inf
    for order in permutations(range(work_s.shape[0])):
        for where in product(range(kinds.size), repeat=len(order)):
            clock = np.zeros(kinds.size)
            total = 0.0
            for job, machine in zip(order, where, strict=True):
                clock[machine] += work_s[job, kinds[machine]]
                total += clock[machine]
            best = min(best, total)
    return best


@pytest.mark.parametrize("seed", range(8))
def test_the_matching_is_the_least_total_of_all_schedules(seed: int) -> None:
    draw = np.random.default_rng(seed)
    work_s = draw.uniform(1.0, 20.0, (4, 2))
    work_s[draw.random((4, 2)) < 0.2] = np.inf
    work_s[~np.isfinite(work_s).any(axis=1), 0] = 7.0
    machines = [int(n) for n in draw.integers(1, 3, 2)]
    kind, depth, total_s = least_total(work_s, np.asarray(machines))
    assert total_s == pytest.approx(by_enumeration(work_s, machines))
    # No place is taken twice: at each depth of a type at most as many jobs as it has machines.
    places = np.asarray([kind, depth]).T
    for place, count in zip(*np.unique(places, axis=0, return_counts=True), strict=True):
        assert count <= machines[place[0]]


def test_shortest_job_is_first_without_preemption() -> None:
    """One GPU of two is free: 30 iterations of 8 s before 100; who runs stays, longer or not."""
    before = state(
        cluster(2),
        running("r", {0: [1]}, iterations=900),
        queued("long", 1, iterations=100),
        queued("short", 1, iterations=30),
    )
    found = make_policy("allox", LINEAR, PolicyOptions()).decide(before).allocation
    assert grants(found) == {"r": {0: (1,)}, "short": {0: (0,)}}


def test_a_gang_counts_with_all_its_gpus_and_others_pass_where_it_does_not_fit() -> None:
    """Times on one GPU, start of 30 s: b and c 30 + 8 x 200 = 1,630 s, a 8 x (30 + 250) = 2,240 s,
    d 30 + 8 x 500 = 4,030 s. b and c start; a does not fit on the 6 of 8 GPUs left, d does.
    """
    jobs = (
        queued("a", 8, iterations=250),
        queued("b", 1, iterations=200),
        queued("c", 1, iterations=200),
        queued("d", 1, iterations=500),
    )
    found = make_policy("allox", LINEAR, PolicyOptions()).decide(state(cluster(8), *jobs))
    assert counts(found.allocation) == {"b": 1, "c": 1, "d": 1}


def test_job_without_a_configuration_waits_alone() -> None:
    policy = make_policy("allox", LINEAR, PolicyOptions())
    before = state(cluster(4), queued("never", 2, cpus_per_gpu=10**6), queued("a", 4))
    assert counts(policy.decide(before).allocation) == {"a": 4}
