"""Policy ``gandiva`` in the engine: completions of the simulation, and nodes that fail."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from morph_opt.domain import Cluster, InputError, RoundState, Trace
from morph_opt.engine.node_events import NodeEvent
from morph_opt.events.log import NodeStatus
from morph_opt.perf.tables.durations import RigidSeconds, rigid_job
from morph_opt.policies.base import Decision
from morph_opt.policies.gandiva.policy import GandivaSlices
from morph_opt.policies.gandiva.slices import SliceJob, SliceRules, Slices
from morph_opt.replay import ReplayConfig, replay
from morph_opt.traces.tiresias import rigid_node

GANGS = (1, 1, 1, 2, 2, 4, 8)
SPEEDS = RigidSeconds([("m", gang) for gang in GANGS])
CONFIG = ReplayConfig(restart_s=20.0, migrate_s=5.0, resume_s=1.0)


def drawn(seed: int, count: int, widest: int) -> list[SliceJob]:
    draw = random.Random(seed)
    gangs = [gang for gang in GANGS if gang <= widest]
    submit_s = 0.0
    found = []
    for number in range(count):
        submit_s += draw.choice([0.0, 20.0, 90.0])
        found.append(SliceJob(number, draw.choice(gangs), submit_s, float(draw.randint(30, 900))))
    return found


def trace_of(jobs: list[SliceJob]) -> Trace:
    return Trace.of(
        "slices",
        [rigid_job(f"{j.name:03d}", "m", j.gpus, j.submit_s, int(j.work_s)) for j in jobs],
    )


def servers(count: int) -> Cluster:
    return Cluster.uniform(count, rigid_node(4))


@pytest.mark.parametrize("any_affinity", [False, True])
@pytest.mark.parametrize("migrate", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_completions_are_those_of_the_simulation(
    seed: int, migrate: bool, any_affinity: bool
) -> None:
    """Gangs of one server each: there the simulation and the engine charge the same.

    But for a job that is moved and moved back before it runs: the engine charges a resumption.
    """
    jobs, resume_s = drawn(seed, 25, 4), 5.0 if migrate else 1.0
    rules = SliceRules(
        3, 4, first_s=20.0, resume_s=resume_s, move_s=5.0, migrate=migrate,
        any_affinity=any_affinity,
    )  # fmt: skip
    wanted = {f"{slot.job.name:03d}": slot.end_s for slot in Slices(jobs, rules).run()}
    policy = GandivaSlices(SPEEDS, any_affinity=any_affinity, migrate=migrate)
    config = replace(CONFIG, resume_s=resume_s)
    found = replay(trace_of(jobs), servers(3), policy, SPEEDS, config)
    assert found.summary["completed"] == len(jobs)
    for record in found.history.jobs:
        assert record.finish_s == pytest.approx(wanted[record.job.name], abs=1e-6)


class _Watched:
    """Repeats a policy's rounds on another that only observes, then compares what they decide."""

    def __init__(self) -> None:
        self._one, self._other = GandivaSlices(SPEEDS), GandivaSlices(SPEEDS)
        self.name, self.rounds = self._one.name, 0

    def decide(self, state: RoundState) -> Decision:
        self.rounds += 1
        decision = self._one.decide(state)
        if self.rounds < 20:
            self._other.observe(state)
        else:
            assert self._other.decide(state) == decision
        return decision


def test_gangs_over_servers_and_nodes_that_fail() -> None:
    """Everybody completes, nothing is over capacity, and a resumed run decides the same."""
    jobs = drawn(5, 25, 8)
    events = [
        NodeEvent(200.0, 0, NodeStatus.FAILED), NodeEvent(500.0, 0, NodeStatus.UP),
        NodeEvent(700.0, 2, NodeStatus.DRAINED), NodeEvent(900.0, 2, NodeStatus.UP),
    ]  # fmt: skip
    policy = _Watched()
    found = replay(trace_of(jobs), servers(3), policy, SPEEDS, CONFIG, node_events=events)
    assert found.summary["completed"] == len(jobs)
    assert found.summary["rounds_over_capacity"] == 0
    assert policy.rounds > 20


def test_servers_of_two_sizes_are_refused() -> None:
    two = Cluster("two", (*servers(1).nodes, *Cluster.uniform(2, rigid_node(2)).nodes[1:]))
    with pytest.raises(InputError, match="servers of one size"):
        replay(trace_of(drawn(0, 2, 1)), two, GandivaSlices(SPEEDS), SPEEDS, CONFIG)
