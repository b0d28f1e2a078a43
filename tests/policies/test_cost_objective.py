"""Objective ``cost``: prices, SLOs, the fewest of them dropped and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from morph_opt.core.domain import (
    Cluster,
    InputError,
    Job,
    JobState,
    RoundState,
    Trace,
)
from morph_opt.inputs.clusters import parse_short
from morph_opt.inputs.perf.tables.gangs import RIGID_PLAN
from morph_opt.inputs.perf.tables.gavel import GavelTable, GavelThroughputs
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.objectives.deadlines import SloNames, prices_of, slo_left_s
from morph_opt.scheduling.policies.registry import PolicyOptions, make_objective, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import SloChange, SloChanged
from tests.formulations.worlds.rounds import starts_and_stays

KEY = ("A", 1)
SPEEDS = GavelTable(GavelThroughputs({"v100": {KEY: 4.0}, "k80": {KEY: 1.0}}, {}, {}))
TWO = parse_short("1x1:V100+1x1:K80").with_prices({"V100": 8.0, "K80": 1.0})
"""A V100 is 4 times as fast and 8 times as expensive."""


OPTIONS = {"milp": PolicyOptions(objective="cost", gap=0.0), "gavel:cost": PolicyOptions()}


def job(name: str, iterations: int = 4000, deadline_s: float | None = None) -> Job:
    return Job(name, f"{KEY[0]} x{KEY[1]}", 0.0, iterations, 1, RIGID_PLAN, deadline_s=deadline_s)


def at(time_s: float, *jobs: Job, where: Cluster = TWO, restart_s: float = 0.0) -> RoundState:
    states = tuple(JobState(one, restart_s=restart_s) for one in jobs)
    return RoundState(round(time_s / 60), time_s, 60.0, where, states)


def types(state: RoundState, policy: str = "milp") -> dict[str, str]:
    decision = make_policy(policy, SPEEDS, OPTIONS[policy]).decide(state)
    return {
        held.job: state.cluster.nodes[held.placement.nodes[0]].type.gpu_type.name
        for held in decision.allocation.assignments
    }


def test_the_job_with_a_deadline_gets_the_fast_gpu() -> None:
    # 4000 steps: 1000 s on the V100, 4000 s on the K80.
    assert types(at(60.0, job("a", deadline_s=1500.0), job("b"))) == {"a": "V100", "b": "K80"}
    assert types(at(60.0, job("a"), job("b", deadline_s=1500.0))) == {"a": "K80", "b": "V100"}


def test_prices_decide_where_nothing_else_does() -> None:
    """A job that gains less from the expensive type per dollar leaves it to the other."""
    assert types(at(60.0, job("a"), job("b", deadline_s=9000.0))).keys() == {"a", "b"}
    alone = at(60.0, job("a"))
    assert types(alone) == {"a": "V100"}, "0.25 x the time at 2 x the cost"
    expensive = TWO.with_prices({"V100": 80.0})
    assert types(replace(alone, cluster=expensive)) == {"a": "K80"}


@pytest.mark.parametrize("policy", ["milp", "gavel:cost"])
def test_the_fewest_slos_are_dropped_and_named(policy: str) -> None:
    # Each alone needs the V100 for 1000 of 1200 s; only one of them can have it.
    rivals = [job(name, deadline_s=1260.0) for name in ("a", "b", "c")]
    easy = job("d", 100, deadline_s=50_000.0)
    state = at(60.0, *rivals, easy)
    report = make_policy(policy, SPEEDS, OPTIONS[policy]).decide(state).report
    assert len(report.slo_dropped) == 2
    assert set(report.slo_dropped) < {"a", "b", "c"}
    assert report.slo_restored == ()


def test_a_drop_is_named_once_and_may_be_taken_back() -> None:
    names = SloNames()
    both = at(60.0, job("a", deadline_s=900.0), job("b", deadline_s=900.0))
    names.settle(both, [1])
    assert names.newly_dropped == ("b",)
    names.settle(both, [1])
    assert names.newly_dropped == ("b",), "the same round twice is once"
    later = replace(both, index=2, time_s=120.0)
    names.settle(later, [1])
    assert (names.newly_dropped, names.restored) == ((), ())
    names.settle(replace(later, index=3, time_s=180.0), [0])
    assert (names.newly_dropped, names.restored) == (("a",), ("b",))
    past = replace(later, index=20, time_s=1200.0)
    names.settle(past, [])
    assert names.dropped == {"a", "b"}, "both deadlines have passed"
    names.settle(at(1260.0), [])
    assert names.restored == (), "complete jobs are not restored"


def test_start_up_is_taken_off_the_time_that_is_left() -> None:
    known = at(100.0, job("a", deadline_s=1000.0), restart_s=260.0).jobs[0]
    assert slo_left_s(known, 100.0) == 640.0
    assert slo_left_s(at(100.0, job("a")).jobs[0], 100.0) == float("inf")


def test_a_type_without_a_price_is_named() -> None:
    where = parse_short("1x1:V100+1x1:T4")
    with pytest.raises(InputError, match=r"prices: .* T4 of cluster .* has none.*prices T4="):
        prices_of(where)
    bare = replace(TWO.nodes[0].type.gpu_type, price_per_hour=None)
    kind = replace(TWO.nodes[0].type, gpu_type=bare)
    state = at(60.0, job("a"), where=Cluster("c", (replace(TWO.nodes[0], type=kind),)))
    for policy in ("milp", "gavel:cost"):
        with pytest.raises(InputError, match="V100"):
            types(state, policy)


def test_other_objectives_need_no_price_and_name_no_slo() -> None:
    objective = make_objective("jct")
    assert objective.slo_changes() == ((), ())
    assert make_objective("fairness", SPEEDS).slo_changes() == ((), ())


def levels(*states: JobState, time_s: float = 60.0) -> dict[str, tuple[list[float], list[float]]]:
    """Level to values of the candidates on (V100, K80) per job, and of the stays."""
    from morph_opt.scheduling.decision.candidates.table import CandidateBuilder

    state = RoundState(1, time_s, 60.0, TWO, states)
    objective = make_objective("cost", SPEEDS)
    data = objective.observe(state)
    problem = CandidateBuilder(SPEEDS).view(state).problem
    table = problem.candidates
    names = [TWO.node_types[c].gpu_type.name for c in table.node_class.tolist()]
    order = sorted(range(table.count), key=lambda k: (table.job[k], names[k] != "V100"))
    return {
        level.name: ([level.value[k] for k in order], starts_and_stays(problem, level)[1])
        for level in objective.levels(problem, data)
    }


def test_levels_by_hand() -> None:
    # 4000 steps: 1000 s on the V100, 4000 s on the K80, 100 s of start-up; 1200 s are left.
    known = JobState(job("a", deadline_s=1260.0), restart_s=100.0)
    slo, dollar = levels(known)["slo"][0], levels(known)["dollar"][0]
    assert slo == pytest.approx([(1200.0 * 1200.0) ** -0.5, 0.0]), "the K80 is too slow"
    # n counts the start-up twice: 1200 s at 8 $/h and 4200 s at 1 $/h, the cheapest.
    assert dollar == pytest.approx([4200.0 / 9600.0 / 1200.0, 1.0 / 4200.0])
    easy = JobState(job("a", deadline_s=6060.0), restart_s=100.0)
    assert levels(easy)["slo"][0] == pytest.approx(
        [(1200.0 * 6000.0) ** -0.5, (4200.0 * 6000.0) ** -0.5]
    )
    assert levels(JobState(job("a"), restart_s=100.0))["slo"][0] == [0.0, 0.0]
    just_missed = JobState(job("a", deadline_s=1159.0), restart_s=100.0)
    assert levels(just_missed)["slo"][0] == [0.0, 0.0], "the start-up counts once"


@pytest.mark.parametrize(("deadline_s", "kept"), [(1260.0, True), (860.0, False)])
def test_a_stay_keeps_an_slo_if_it_is_in_time(deadline_s: float, kept: bool) -> None:
    from morph_opt.core.domain import Assignment, Placement

    held = Assignment("a", RIGID_PLAN, Placement.of({0: [0]}))
    known = JobState(
        job("a", deadline_s=deadline_s),
        iterations_done=400.0,
        running=held,
        restart_left_s=0.0,
        restart_s=100.0,
        starts=1,
        first_start_s=0.0,
        last_start_s=0.0,
    )
    found = levels(known)
    # 3600 steps are left: 900 s where it runs.
    value = (900.0 * (deadline_s - 60.0)) ** -0.5 if kept else 0.0
    assert found["slo"][1] == pytest.approx([value])
    assert found["dollar"][1] == pytest.approx([min(1.0, 3800.0 / 7200.0) / 900.0])


def test_an_slo_that_cannot_be_promised_is_met_where_there_is_room() -> None:
    """At constant rates one of the two has to be dropped; one after the other meets both."""
    one = parse_short("1x1:V100").with_prices({"V100": 1.0})
    jobs = (job("a", 2400, deadline_s=700.0), job("b", 2400, deadline_s=1400.0))
    policy = make_policy("milp", SPEEDS, PolicyOptions(objective="cost", gap=0.0))
    summary = replay(Trace("t", jobs), one, policy, SPEEDS, ReplayConfig(restart_s=0.0)).summary
    assert summary["slo_met"] == 2
    assert summary["slo_dropped"] >= 1


def test_a_replay_names_every_drop_in_its_log_and_counts_them() -> None:
    rivals = [job(name, deadline_s=1500.0) for name in ("a", "b", "c")]
    trace = Trace("t", tuple(rivals))
    policy = make_policy("milp", SPEEDS, PolicyOptions(objective="cost", gap=0.0))
    result = replay(trace, TWO, policy, SPEEDS, ReplayConfig(restart_s=0.0))
    named = {
        event.job
        for event in result.events
        if isinstance(event, SloChanged) and event.change is SloChange.DROPPED
    }
    summary = result.summary
    assert summary["slo_met"] == 1
    assert summary["slo_missed"] == 2
    # Among equals anyone may be named, in another round another one.
    assert summary["slo_dropped"] == len(named) >= 2
    assert str(summary["slo_dropped_jobs"]).split() == sorted(named)
    # Every job holds one GPU at a time: 8 $/h on the V100, 1 $/h on the K80.
    hours = [
        sum(s.held_s for s in record.segments if s.placement.nodes == (node,)) / 3600.0
        for node in (0, 1)
        for record in result.history.jobs
    ]
    assert summary["cost_usd"] == pytest.approx(8.0 * sum(hours[:3]) + sum(hours[3:]))
