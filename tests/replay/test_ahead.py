"""Plans ahead in replays: promised starts are kept, also in a run that was interrupted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from morph_opt.core.domain import InputError, Trace
from morph_opt.core.domain.units import HOUR_S
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.rules.model import NonPreemptible, OperatorRules, TenantQuota
from morph_opt.scheduling.decision.rules.queues import StartBy
from morph_opt.scheduling.policies.base import Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Event, PlanMade, RoundDecided, Started, StartPlanned
from tests.engine.toys import ToySpeeds, cluster, job

SPEEDS = ToySpeeds(counts=(1, 2, 4, 8))
STAYS = NonPreemptible(("*",))
CONFIG = ReplayConfig(restart_s=30.0, interval_s=200.0)
EVENTS = replace(CONFIG, rounds="events")


def made(*more: Any, plan: str = "promised", durations: str = "true") -> Policy:
    """The MILP that plans ahead, where nothing is stopped and two hours of waiting are due."""
    rules = OperatorRules((STAYS, StartBy(2 * HOUR_S, 1.0), *more))
    options = PolicyOptions(
        objective="saved-time", rules=rules, durations=durations, plan_ahead=plan
    )
    return make_policy("milp", SPEEDS, options)


def stream(seed: int, count: int = 9, gpus: tuple[int, ...] = (1, 2, 4, 8)) -> Trace:
    """Gangs of 1 to 8 GPUs, more than there is room for, with limits above their run times."""
    draw = np.random.default_rng(seed)
    jobs = []
    for number in range(count):
        wide = int(draw.choice(gpus))
        run_s = float(draw.integers(100, 4000))
        jobs.append(
            job(
                f"j{number:02}",
                float(draw.integers(0, 300 * count)),
                max(1, int(run_s * wide / 8.0)),
                wide,
                time_limit_s=float(np.ceil(run_s * draw.uniform(1.1, 5.0)) + 60.0),
            )
        )
    return Trace.of("stream", sorted(jobs, key=lambda one: one.submission_s))


def run(trace: Trace, policy: Policy, config: ReplayConfig = CONFIG, **how: Any) -> list[Event]:
    """The events of a replay on one node."""
    return list(replay(trace, cluster(1, 8), policy, SPEEDS, config, **how).events)


def kept(events: list[Event]) -> int:
    """Check that every promise was kept and none moved; return how many there were."""
    promised: dict[str, float] = {}
    for event in events:
        match event:
            case StartPlanned(by_s=by_s):
                assert by_s is not None
                assert event.later_s == 0.0
                assert event.start_s <= by_s
                assert promised.setdefault(event.job, by_s) == by_s
            case Started() if event.job in promised:
                assert event.time_s <= promised[event.job]
            case _:
                pass
    return len(promised)


@pytest.mark.parametrize("durations", ["true", "limits"])
@pytest.mark.parametrize("config", [CONFIG, EVENTS])
def test_no_promised_start_moves_while_run_times_are_no_longer_than_believed(
    durations: str, config: ReplayConfig
) -> None:
    for seed in range(1):
        events = run(stream(seed), made(durations=durations), config)
        assert kept(events) > 3
        plans = [event for event in events if isinstance(event, PlanMade)]
        assert len(plans) > 3
        assert all(one.bound_s is not None and one.bound_s <= one.cost_s for one in plans)


def test_events_that_fall_on_boundaries_move_no_promise() -> None:
    """Instants are whole seconds and a round is one of three: many events are on its boundaries."""
    events = run(stream(4), made(), replace(EVENTS, interval_s=3.0))
    assert kept(events) > 3


def test_jobs_that_run_longer_than_believed_move_promises_and_that_is_said() -> None:
    moved = [
        event
        for event in run(stream(0), made(durations="noisy:1.0"))
        if isinstance(event, StartPlanned) and event.later_s > 0.0
    ]
    assert moved
    assert all("believed" in event.why for event in moved)


def test_where_late_starts_only_cost_more_nothing_is_promised() -> None:
    events = run(stream(0), made(plan="soft"))
    planned = [event for event in events if isinstance(event, StartPlanned)]
    assert planned
    assert all(event.by_s is None for event in planned)


@pytest.mark.parametrize("durations", ["true", "limits"])
@pytest.mark.parametrize("plan", ["soft", "promised"])
def test_an_interrupted_run_with_plans_is_finished_as_if_it_had_not_been(
    durations: str, plan: str, tmp_path: Path
) -> None:
    trace = stream(3)
    whole, part = tmp_path / "whole", tmp_path / "part"
    run(trace, made(plan=plan, durations=durations), out=whole)

    class Stop(Exception):
        pass

    def stop(event: RoundDecided, _: int) -> None:
        if event.index == 12:
            raise Stop

    with pytest.raises(Stop):
        run(trace, made(plan=plan, durations=durations), out=part, progress=stop)
    run(trace, made(plan=plan, durations=durations), out=part, resume=True)
    assert (part / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()


def test_a_job_beyond_its_quota_is_planned_for_later_and_holds_up_nobody() -> None:
    jobs = [job(f"p{i}", 0.0, 200, 4, tenant="poor") for i in range(2)]
    trace = Trace.of("quota", (*jobs, job("other", 1.0, 200, 4)))
    events = run(trace, made(TenantQuota("poor", 4)))
    started = {event.job: event.time_s for event in events if isinstance(event, Started)}
    assert started["other"] == 200.0
    assert started["p1"] > 200.0
    planned = [event for event in events if isinstance(event, StartPlanned) and event.job == "p1"]
    assert planned[0].start_s > 200.0


@pytest.mark.parametrize(
    ("rules", "durations", "words"),
    [((), "true", "non_preemptible"), ((STAYS,), "blind", "run times or time limits")],
)
def test_plans_need_run_times_and_jobs_that_stay(
    rules: tuple[NonPreemptible, ...], durations: str, words: str
) -> None:
    options = PolicyOptions(plan_ahead="soft", rules=OperatorRules(rules), durations=durations)
    with pytest.raises(InputError, match=words):
        make_policy("milp", SPEEDS, options)
