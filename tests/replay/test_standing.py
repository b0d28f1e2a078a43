"""Decisions that stand: rounds without an event are decided without asking, and come out alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import Cluster, RoundState, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import Event, NodeStatus, RoundDecided
from morph_opt.simulation.runs.rounds import row_to_line
from tests.engine.toys import ToySpeeds, cluster, job, random_trace

STANDING = ("fifo", "fifo:skip", "srtf", "equal_split", "tiresias:2d-las")
SPEEDS = ToySpeeds()


class Asked(Policy):
    """Counts how often a policy is asked; ``every``: it is asked in every round."""

    def __init__(self, policy: Policy, every: bool) -> None:
        self._policy, self._every = policy, every
        self.name, self.asked = policy.name, 0

    @property
    def remembers(self) -> bool:
        """Who remembers sees every round."""
        return self._every

    def decide(self, state: RoundState) -> Decision:
        self.asked += 1
        return self._policy.decide(state)


def made(name: str) -> Policy:
    """A policy, or ``milp:OBJECTIVE``."""
    policy, _, objective = name.partition(":")
    if policy != "milp":
        return make_policy(name, SPEEDS, PolicyOptions())
    return make_policy(policy, SPEEDS, PolicyOptions(objective=objective))


def run(
    name: str,
    trace: Trace,
    every: bool,
    config: ReplayConfig,
    nodes: tuple[NodeEvent, ...],
    where: Cluster | None = None,
) -> tuple[tuple[Event, ...], list[str], int]:
    """The log, the rows of its rounds without wall times, and how often the policy was asked."""
    policy = Asked(made(name), every)
    found = replay(trace, where or cluster(2, 4), policy, SPEEDS, config, node_events=nodes)
    steps = dict.fromkeys(("candidates_ms", "build_ms", "solve_ms", "place_ms", "check_ms"), 0.0)
    rows = [
        row_to_line(replace(row, report=replace(row.report, **steps), round_ms=0.0, engine_ms=0.0))
        for row in found.rounds
    ]
    return found.events, rows, policy.asked


@pytest.mark.parametrize("name", STANDING)
@pytest.mark.parametrize("seed", range(2))
def test_skipped_rounds_give_the_same_log_as_asked_ones(name: str, seed: int) -> None:
    trace = random_trace(seed, 14, iterations=900)
    nodes = (
        NodeEvent(700.0, 0, NodeStatus.FAILED),
        NodeEvent(1500.0, 0, NodeStatus.UP),
        NodeEvent(1800.0, 1, NodeStatus.DRAINED),
        NodeEvent(4000.0, 1, NodeStatus.UP),
    )
    config = ReplayConfig(restart_s=90.0, until_s=9000.0 if seed == 0 else None)
    log, rows, asked = run(name, trace, False, config, nodes)
    always, asked_rows, rounds = run(name, trace, True, config, nodes)
    assert log == always
    assert rows == asked_rows
    assert rounds == sum(isinstance(event, RoundDecided) for event in log)
    assert asked < rounds


@pytest.mark.parametrize("objective", ["jct", "throughput"])
def test_milp_is_not_asked_while_every_job_runs_as_fast_as_it_can(objective: str) -> None:
    """One node of 4: a job alone has all of it, two share it and the rounds are solved."""
    trace = Trace.of(
        "three",
        [job("a", iterations=900), job("b", 1000.0, 300), job("c", 7000.0, 900)],
    )
    where, config = cluster(1, 4), ReplayConfig(restart_s=90.0)
    log, rows, asked = run(f"milp:{objective}", trace, False, config, (), where)
    always, asked_rows, rounds = run(f"milp:{objective}", trace, True, config, (), where)
    assert log == always
    assert rows == asked_rows
    assert asked < rounds
    decided = [event for event in log if isinstance(event, RoundDecided)]
    assert all(event.gap is not None and event.gap <= 1e-4 for event in decided)
    stays = [row for row in rows if ",stays," in row]
    # a alone needs about 1,800 s, c alone as much: most of 60 rounds.
    assert len(stays) > rounds - asked > 25


class Keeper(Policy):
    """Keeps the rounds that another policy decides, and says nothing of a memory."""

    remembers = True

    def __init__(self, inner: Policy) -> None:
        self._inner, self.name = inner, inner.name
        self.seen: list[int] = []

    def decide(self, state: RoundState) -> Decision:
        self.seen.append(state.index)
        return self._inner.decide(state)


@pytest.mark.parametrize("name", ["fifo", "milp:jct"])
def test_wrapping_policy_sees_every_round(name: str) -> None:
    """Collectors of states know nothing of decisions that stand, which pass through them."""
    keeper = Keeper(made(name))
    trace = Trace.of("one", [job("a", iterations=600)])
    found = replay(trace, cluster(1, 4), keeper, SPEEDS, ReplayConfig(restart_s=0.0))
    assert keeper.seen == list(range(len(found.rounds)))
    assert len(keeper.seen) > 10


def test_a_job_that_runs_alone_is_asked_about_when_it_starts_and_once_more() -> None:
    """100,000 s of work: boundary 60 starts it, boundary 120 finds it running, 1,666 more pass."""
    trace = Trace.of("one", [job("a", iterations=12_500, gpus=1)])
    log, _, asked = run("fifo", trace, False, ReplayConfig(restart_s=0.0), ())
    assert asked == 2
    # It is complete at 60 + 12,500 x 8 s = 100,060 s: boundaries 60, 120 ... 100,020 are rounds.
    assert sum(isinstance(event, RoundDecided) for event in log) == 1667


def test_jobs_that_wait_are_asked_about_where_time_decides() -> None:
    """Whoever waits for an order that time changes is asked about in every round, else in two."""
    trace = Trace.of("two", [job("a", iterations=600, gpus=4), job("b", iterations=600, gpus=8)])
    asked = {
        name: run(name, trace, False, ReplayConfig(restart_s=0.0, until_s=600.0), ())[2]
        for name in ("fifo", "srtf")
    }
    # a takes 600 x 2 s on 4 GPUs, b waits for all 8: ten rounds, until the horizon.
    assert asked == {"fifo": 2, "srtf": 10}


def test_a_replay_in_which_nothing_can_run_still_stalls() -> None:
    """Both nodes have failed: rounds pass without an event, and count as idle as ever."""
    nodes = tuple(NodeEvent(1.0, node, NodeStatus.FAILED) for node in range(2))
    config = ReplayConfig(stall_rounds=7)
    trace = Trace.of("one", [job("a")])
    log, _, asked = run("fifo", trace, False, config, nodes)
    assert asked == 1
    assert log == run("fifo", trace, True, config, nodes)[0]
    assert sum(isinstance(event, RoundDecided) for event in log) == 7
