"""What a start costs: the first, back where the job was, elsewhere, otherwise, after a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import Cluster, InputError, JobState, RoundState, Trace
from morph_opt.core.domain.starting import StartPrices
from morph_opt.replay.prepare import continued
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.initial import with_prices
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import (
    NodeStatus,
    Started,
    StartKind,
    event_from_line,
    event_to_line,
)
from morph_opt.simulation.metrics.bounds.demands import initial_demands, job_demands
from morph_opt.simulation.metrics.bounds.lower import avg_jct_lower_bound, makespan_lower_bound
from tests.engine.toys import GC, Scripted, Shuffler, ToySpeeds, cluster, hold, job, random_trace

SPEEDS = ToySpeeds({"m": 1.0}, counts=(1, 2))
PRICES = ReplayConfig(restart_s=40.0, migrate_s=9.0, resume_s=2.0, first_start_s=30.0)


def starts(plans: dict[int, list[object]], *events: NodeEvent, **config: float) -> list[float]:
    """Start-up of every start of job a, one decision per round of 60 s."""
    policy = Scripted(plans)  # type: ignore[arg-type]
    result = replay(
        Trace.of("one", [job("a", 0.0, 10_000)]),
        cluster(3, 2),
        policy,
        SPEEDS,
        replace(PRICES, until_s=600.0, **config),
        node_events=events,
    )
    for event in result.events:
        assert event_from_line(event_to_line(event)) == event
    return [e.restart_s for e in result.events if isinstance(e, Started)]


ON_0, ON_1, BOTH = hold("a", {0: [0]}), hold("a", {1: [0]}), hold("a", {0: [0, 1]})
SPREAD, GC_0 = hold("a", {0: [0], 1: [0]}), hold("a", {0: [0]}, GC)


@pytest.mark.parametrize(
    ("then", "price_s"),
    [
        (ON_0, 2.0),
        (hold("a", {0: [1]}), 2.0),  # another GPU of its node
        (ON_1, 9.0),
        (BOTH, 40.0),  # another number of GPUs
        (GC_0, 40.0),  # another plan
    ],
    ids=["back", "gpu", "node", "gpus", "plan"],
)
@pytest.mark.parametrize("pause", [True, False], ids=["paused", "at once"])
def test_a_start_costs_what_the_job_keeps_by_it(then: object, price_s: float, pause: bool) -> None:
    if pause:
        assert starts({0: [ON_0], 1: [], 3: [then]}) == [30.0, price_s]
    elif then is not ON_0:  # which is a stay
        assert starts({0: [ON_0], 1: [then]}) == [30.0, price_s]


def test_counts_on_the_same_nodes_must_be_the_same() -> None:
    """Two GPUs on one node, then one on each of two: a migration, as the number is the same."""
    assert starts({0: [BOTH], 1: [SPREAD], 2: [], 3: [SPREAD]}) == [30.0, 9.0, 2.0]


def test_missing_start_price_defaults_to_the_next_higher_one() -> None:
    moves = {0: [ON_0], 1: [ON_1], 2: [], 3: [ON_1]}
    assert starts(moves, resume_s=None) == [30.0, 9.0, 9.0]
    assert starts(moves, migrate_s=None) == [30.0, 40.0, 2.0]
    assert starts(moves, resume_s=None, migrate_s=None) == [30.0, 40.0, 40.0]


@pytest.mark.parametrize("at_s", [100.0, 150.0], ids=["while it ran", "while it waited"])
def test_a_failure_takes_what_the_job_kept_on_the_node(at_s: float) -> None:
    fails = [NodeEvent(at_s, 0, NodeStatus.FAILED), NodeEvent(at_s + 9.0, 0, NodeStatus.UP)]
    plans = {0: [ON_0], 1: [], 3: [ON_0], 4: [], 5: [ON_1]}
    # the first start; then a whole one; then a migration, as the node came back before it
    assert starts(plans, *fails) == [30.0, 40.0, 9.0]
    other = [NodeEvent(at_s, 2, NodeStatus.FAILED)]
    assert starts(plans, *other) == [30.0, 2.0, 9.0]


def test_a_start_up_that_is_cut_short_leaves_nothing() -> None:
    """70 s of start-up: ten are left at the boundary at which the job is stopped or moved."""
    for plans in ({0: [ON_0], 1: [], 2: [ON_0]}, {0: [ON_0], 1: [ON_1]}):
        assert starts(plans, restart_s=80.0, first_start_s=70.0) == [70.0, 80.0]
    assert starts({0: [ON_0], 2: [], 3: [ON_0]}, restart_s=80.0, first_start_s=70.0) == [70.0, 2.0]


def test_states_say_what_was_held_last_and_what_a_start_costs() -> None:
    policy = Scripted({0: [ON_0], 1: []})
    trace = Trace.of("one", [job("a", 0.0, 10_000)])
    replay(trace, cluster(2, 2), policy, SPEEDS, replace(PRICES, until_s=200.0))
    new, runs, waits = (state.jobs[0] for state in policy.seen)
    assert (new.restart_s, new.resume_s, new.migrate_s, new.last_held) == (30.0, None, None, None)
    assert (runs.restart_s, runs.resume_s, runs.migrate_s) == (40.0, 2.0, 9.0)
    assert (runs.last_held, waits.last_held) == (None, ON_0)
    assert waits.start_up_s(ON_1.plan, ON_1.placement) == 9.0


def test_prices_must_ascend() -> None:
    for prices, field in (
        ({"resume_s": 50.0}, "resume_s"),
        ({"migrate_s": 41.0}, "migrate_s"),
        ({"resume_s": 10.0, "migrate_s": 9.0}, "resume_s"),
        ({"resume_s": -1.0}, "resume_s"),
    ):
        with pytest.raises(InputError) as refused:
            ReplayConfig(restart_s=40.0, **prices)
        assert refused.value.field == field
    with pytest.raises(InputError, match="must be at most migrate_s"):
        StartPrices(40.0, 9.0, 10.0)


class _Seen(Policy):
    remembers = True  # keeps what it is shown

    def __init__(self, seed: int) -> None:
        self._inner = Shuffler(seed)
        self.name, self.states = self._inner.name, []  # type: ignore[var-annotated]

    def decide(self, state: RoundState) -> Decision:
        self.states.append(state)
        return self._inner.decide(state)


@pytest.mark.parametrize("seed", range(2))
def test_a_replay_that_takes_up_a_state_goes_on_at_the_same_prices(seed: int) -> None:
    """From any state on the same completions as the whole replay, and bounds below them."""
    config = ReplayConfig(restart_s=70.0, migrate_s=25.0, resume_s=4.0)
    where, speeds, jobs = cluster(2, 4), ToySpeeds(), random_trace(seed, 12)
    seen = _Seen(seed)
    whole = replay(jobs, where, seen, speeds, config)
    paid = {e.restart_s for e in whole.events if isinstance(e, Started)}
    assert paid == {70.0, 25.0, 4.0}
    finish_s = {record.job.name: record.finish_s for record in whole.history.jobs}
    for state in seen.states[1::11]:
        trace = continued(state, jobs.jobs, jobs.name)
        # A job that never ran tells no prices: those of the engine are its own.
        priced = with_prices(state, config)
        rest = replay(trace, where, _Seen(seed), speeds, config, initial=priced)
        for record in rest.history.jobs:
            assert record.finish_s == pytest.approx(finish_s[record.job.name], abs=1e-6)
        _check_bounds(rest.history.jobs, state, trace, where, config)


def _check_bounds(
    records: object, state: RoundState, trace: Trace, where: Cluster, config: ReplayConfig
) -> None:
    left = initial_demands(job_demands(trace, where, ToySpeeds(), config), state, config)
    done = list(records)  # type: ignore[call-overload]
    jct_s = sum(r.turnaround_s for r in done) / len(done)
    first_s = min(r.job.submission_s for r in done)
    assert avg_jct_lower_bound(left).value_s <= jct_s + 1e-6
    assert makespan_lower_bound(left).value_s <= max(r.finish_s for r in done) - first_s + 1e-6


def test_a_state_without_prices_is_given_those_of_the_engine() -> None:
    policy = Scripted({0: [ON_0], 1: []})
    trace = Trace.of("one", [job("a", 0.0, 10_000)])
    plain = replace(PRICES, resume_s=None, migrate_s=None, until_s=200.0)
    replay(trace, cluster(2, 2), policy, SPEEDS, plain)
    state = policy.seen[-1]
    assert state.jobs[0].resume_s is None
    priced = with_prices(state, PRICES).jobs[0]
    assert (priced.restart_s, priced.migrate_s, priced.resume_s) == (40.0, 9.0, 2.0)
    assert with_prices(with_prices(state, PRICES), ReplayConfig(migrate_s=1.0)).jobs[0] == priced


@pytest.mark.parametrize("runs", [True, False], ids=["running", "queued"])
def test_restart_costs_what_the_policy_was_told(runs: bool) -> None:
    """A snapshot by hand that leaves out how often the job has started: back for 2 s."""
    held = replace(ON_0, job="a")
    known = JobState(
        job("a", 0.0, 10_000),
        10.0,
        held if runs else None,
        restart_s=40.0,
        resume_s=2.0,
        migrate_s=9.0,
        last_held=None if runs else held,
    )
    state = RoundState(1, 60.0, 60.0, cluster(3, 2), (known,))
    assert known.start_up_s(ON_0.plan, ON_0.placement) == 2.0
    policy = Scripted({0: [ON_0], 1: [], 2: [ON_0]} if runs else {0: [ON_0]})
    config = replace(PRICES, until_s=300.0)
    trace = continued(state, (), "one")
    result = replay(trace, cluster(3, 2), policy, SPEEDS, config, initial=state)
    begun = [e for e in result.events if isinstance(e, Started) and e.kind is not StartKind.HELD]
    assert [(e.kind, e.restart_s) for e in begun] == [(StartKind.RESUME, 2.0)]
