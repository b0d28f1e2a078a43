"""Policy ``gandiva`` in the engine: completions of the simulation, and nodes that fail."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks.published.simulators.gandiva_slices import SliceJob, SliceRules, Slices
from morph_opt.core.domain import (
    Cluster,
    ExecutionPlan,
    InputError,
    NodeType,
    RoundState,
    Shape,
    Span,
    Trace,
)
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.inputs.traces.tiresias import rigid_node
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.gandiva.policy import GandivaSlices
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import NodeStatus, Started
from tests.engine.toys import ToySpeeds, job

GANGS = (1, 1, 1, 2, 2, 4, 8)
SPEEDS = GangTable(Gang(gang, "m") for gang in GANGS)
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
        [Gang(j.gpus, "m").job(f"{j.name:03d}", j.submit_s, int(j.work_s)) for j in jobs],
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
        3,
        4,
        first_s=20.0,
        resume_s=resume_s,
        move_s=5.0,
        migrate=migrate,
        any_affinity=any_affinity,
    )
    wanted = {f"{slot.job.name:03d}": slot.end_s for slot in Slices(jobs, rules).run()}
    policy = GandivaSlices(SPEEDS, any_affinity=any_affinity, migrate=migrate)
    config = replace(CONFIG, resume_s=resume_s)
    found = replay(trace_of(jobs), servers(3), policy, SPEEDS, config)
    assert found.summary["completed"] == len(jobs)
    for record in found.history.jobs:
        assert record.finish_s == pytest.approx(wanted[record.job.name], abs=1e-6)


class _Watched(Policy):
    """Repeats a policy's rounds on another that only observes, then compares what they decide."""

    remembers = True

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
    """All jobs complete, nothing is over capacity, and a resumed run decides the same."""
    jobs = drawn(5, 25, 8)
    events = [
        NodeEvent(200.0, 0, NodeStatus.FAILED),
        NodeEvent(500.0, 0, NodeStatus.UP),
        NodeEvent(700.0, 2, NodeStatus.DRAINED),
        NodeEvent(900.0, 2, NodeStatus.UP),
    ]
    policy = _Watched()
    found = replay(trace_of(jobs), servers(3), policy, SPEEDS, CONFIG, node_events=events)
    assert found.summary["completed"] == len(jobs)
    assert found.summary["rounds_over_capacity"] == 0
    assert policy.rounds > 20


def test_servers_of_two_sizes_are_refused() -> None:
    two = Cluster("two", (*servers(1).nodes, *Cluster.uniform(2, rigid_node(2)).nodes[1:]))
    with pytest.raises(InputError, match="servers of one size"):
        replay(trace_of(drawn(0, 2, 1)), two, GandivaSlices(SPEEDS), SPEEDS, CONFIG)


class Elastic(ToySpeeds):
    """A model ``GANG-MOST`` needs a second on its gang and is linear up to so many GPUs."""

    def __init__(self, jobs: list[SliceJob], counts: tuple[int, ...] = tuple(range(1, 9))) -> None:
        super().__init__({f"{j.gpus}-{j.most}": float(j.gpus) for j in jobs}, counts, across=1.0)

    def iteration_s(
        self, model: str, node_type: NodeType, shape: Shape, plan: ExecutionPlan, span: Span
    ) -> float | None:
        gang, most = map(int, model.split("-"))
        if not gang <= shape.gpus <= max(gang, most):
            return None
        return super().iteration_s(model, node_type, shape, plan, span)

    def trace(self, jobs: list[SliceJob]) -> Trace:
        return Trace.of(
            "elastic",
            [
                job(f"{j.name:03d}", j.submit_s, int(j.work_s), j.gpus, model=f"{j.gpus}-{j.most}")
                for j in jobs
            ],
        )


@pytest.mark.parametrize("widest", [3, 8])
@pytest.mark.parametrize("seed", range(3))
def test_growth_is_that_of_the_simulation(seed: int, widest: int) -> None:
    """Every start costs the same, so that it does not count whether a pause changed the GPUs."""
    draw = random.Random(seed)
    jobs = [
        replace(j, submit_s=2 * widest * j.submit_s, most=j.gpus + draw.choice([0, 1, 3]))
        for j in drawn(seed, 20, widest)
    ]
    prices = {"first_s": 20.0, "resume_s": 20.0, "move_s": 20.0, "resize_s": 20.0}
    rules = SliceRules(3, 4, **prices, migrate=bool(seed % 2))  # type: ignore[arg-type]
    slices = Slices(jobs, rules)
    slots = slices.run()
    given = [(name, gpus) for _, running in slices.rounds for name, gpus, _ in running]
    assert sum(gpus > jobs[name].gpus for name, gpus in given) >= 4
    speeds = Elastic(jobs)
    policy = GandivaSlices(speeds, migrate=rules.migrate)
    found = replay(speeds.trace(jobs), servers(3), policy, speeds, ReplayConfig(restart_s=20.0))
    assert found.summary["rounds_over_capacity"] == 0
    for slot, record in zip(
        sorted(slots, key=lambda slot: slot.job.name),
        sorted(found.history.jobs, key=lambda record: record.job.name),
        strict=True,
    ):
        assert record.finish_s == pytest.approx(slot.end_s, abs=1e-6)


def grown(
    counts: tuple[int, ...], cpus: int = 128, cpus_per_gpu: int = 0, beside: int = 0
) -> list[int]:
    """GPUs of every start of a gang of 1 on a server of 4; from 120 to 180 s one is beside it."""
    jobs = [SliceJob(0, 1, 0.0, 900.0, most=4)]
    jobs += [SliceJob(1, beside, 100.0, 60.0, most=beside)] if beside else []
    speeds = Elastic(jobs, counts)
    trace = speeds.trace(jobs)
    own = [replace(one, cpus_per_gpu=cpus_per_gpu) for one in trace.jobs]
    where = Cluster.uniform(1, rigid_node(4, cpus=cpus))
    config = ReplayConfig(restart_s=0.0)
    policy = GandivaSlices(speeds, any_affinity=True)
    found = replay(Trace.of("t", own), where, policy, speeds, config)
    return [e.placement.gpus for e in found.events if isinstance(e, Started) and e.job == "000"]


def test_lone_job_grows_within_known_speeds_and_cpus() -> None:
    assert grown((1, 2, 3, 4)) == [4]
    assert grown((1, 2, 3)) == [3]
    assert grown((1, 2, 4), cpus=12, cpus_per_gpu=4) == [1], "4 GPUs need 16 CPUs: no growth at all"
    assert grown((1,)) == [1]


def test_grown_gpus_are_given_back_at_once() -> None:
    """Alone on 4; what the other leaves of them; at 180 alone again."""
    assert grown((1, 2, 4), beside=2) == [4, 2, 4]
    assert grown((1, 2, 3, 4), beside=1) == [4, 3, 4]
    assert grown((1, 4), beside=1) == [4, 1, 4], "3 GPUs are no configuration"
