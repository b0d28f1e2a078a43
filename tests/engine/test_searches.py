"""Searches: who is cancelled when, what the log and the figures say of it, and the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.core.domain import Allocation, InputError, RoundState, Trace
from morph_opt.core.domain.trace import Search
from morph_opt.inputs.traces.morphling import read_workload
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.prepare import continued
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import Cancelled, Ended, event_from_line, event_to_line
from morph_opt.simulation.metrics.schedule import longest_wait_s, reported_s
from tests.engine.toys import Scripted, ToySpeeds, cluster, hold, job

FREE = ReplayConfig(restart_s=0.0)
SPEEDS = ToySpeeds({"m": 1.0}, counts=(1,))


def trial(name: str, report: int = 60, iterations: int = 200) -> mo.Job:
    return replace(job(name, 0.0, iterations), feedback_iterations=report)


def test_the_worst_are_cancelled_at_the_boundary_at_which_the_last_has_reported() -> None:
    """One GPU; a runs from 60, b from 120, c from 180 s: c reports at 240, a and c are cut.

    b goes on at 240 with 140 iterations to go: 380.
    """
    jobs = [trial(name) for name in "abc"]
    trace = Trace.of("search", jobs, searches=[Search("s", ("b", "a", "c"))])
    plans = {i: [hold(name, {0: [0]})] for i, name in enumerate("abc")}
    policy = Scripted({**plans, 3: [hold("b", {0: [0]})]})
    result = replay(trace, cluster(1, 1), policy, SPEEDS, FREE)
    gone = [event for event in result.events if isinstance(event, Cancelled)]
    assert [(e.time_s, e.job, e.iterations_done) for e in gone] == [
        (240.0, "c", 60.0),
        (240.0, "a", 60.0),
    ]
    assert [state.job.name for state in policy.seen[3].jobs] == ["b"]
    for event in result.events:
        assert event_from_line(event_to_line(event)) == event
    records = {record.job.name: record for record in result.history.jobs}
    assert records["b"].finish_s == 380.0
    assert [reported_s(records[name]) for name in "abc"] == [120.0, 180.0, 240.0]
    # c waits from 0 to 180; a from 120 to its end at 240; b to 120
    assert [longest_wait_s(records[name], 380.0) for name in "abc"] == [120.0, 120.0, 180.0]
    summary = result.summary
    assert (summary["completed"], summary["cancelled_jobs"], summary["makespan_s"]) == (1, 2, 380.0)
    assert (summary["first_service_s"], summary["feedback_s"]) == (120.0, 180.0)
    assert summary["longest_wait_s"] == 180.0
    assert summary["avg_jct_lower_bound_s"] is None
    assert [row.state for row in result.jobs].count("cancelled") == 2


class _Standing(Scripted):
    """Says of rounds without an entry that they stand, or does not."""

    remembers = False

    def __init__(self, steady: bool) -> None:
        super().__init__({0: [hold("a", {0: [0]}), hold("b", {0: [1]})]})
        self._stands = steady

    def decide(self, state: RoundState) -> Decision:
        steady = self._stands and state.index not in self.script
        return replace(super().decide(state), steady=steady)


def test_a_decision_that_stands_does_not_outlast_an_open_search() -> None:
    """Both run from 60 and report at 210; b is cut at 240, a boundary without any other event."""
    jobs = [trial(name, report=150) for name in "ab"]
    trace = Trace.of("search", jobs, searches=[Search("s", ("a", "b"))])
    logs = [
        replay(trace, cluster(1, 2), _Standing(steady), SPEEDS, FREE).events
        for steady in (True, False)
    ]
    assert logs[0] == logs[1]
    assert [(e.time_s, e.job) for e in logs[0] if isinstance(e, Cancelled)] == [(240.0, "b")]


class _Turns(Policy):
    """Whoever had a GPU least, a round each; remembers what it was asked."""

    name = "turns"

    def __init__(self) -> None:
        self.seen: list[RoundState] = []

    def decide(self, state: RoundState) -> Decision:
        self.seen.append(state)
        if not state.jobs:
            return Decision(Allocation(()))
        one = min(state.jobs, key=lambda known: (known.executed_s, known.job.name))
        return Decision(Allocation((hold(one.job.name, {0: [0]}),)))


@pytest.mark.parametrize("keep", [1, 2])
def test_a_replay_from_any_of_its_states_cuts_whom_the_whole_one_cuts(keep: int) -> None:
    """Best is a, which is complete before c reports; of the states behind that it is gone."""
    jobs = [trial("a", 30, 50), trial("b"), trial("c", 90, 300), trial("d")]
    trace = Trace.of("search", jobs, searches=[Search("s", tuple("abcd"), keep)])
    whole_policy = _Turns()
    whole = replay(trace, cluster(1, 1), whole_policy, SPEEDS, FREE)
    gone = {e.job: e.time_s for e in whole.events if isinstance(e, Cancelled)}
    assert set(gone) == set("bcd"[keep - 1 :])
    for state in whole_policy.seen:
        left = continued(state, jobs, "search", searches=trace.searches)
        rest = replay(left, cluster(1, 1), _Turns(), SPEEDS, FREE, initial=state)
        late = {e.job: e.time_s for e in rest.events if isinstance(e, Cancelled)}
        assert late == {name: at for name, at in gone.items() if at > state.time_s}


def test_search_jobs_may_end_by_cancellation_and_stay_complete() -> None:
    """a is complete at 110 and best; b reports at 180 and is cancelled there, as it runs."""
    jobs = [trial("a", 50, 50), trial("b", 60, 500)]
    trace = Trace.of("search", jobs, searches=[Search("s", ("a", "b"))])
    plans = {0: [hold("a", {0: [0]})], 1: [hold("b", {0: [0]})]}
    result = replay(trace, cluster(1, 1), Scripted(plans), SPEEDS, FREE)
    assert isinstance(result.events[-1], Ended)
    assert result.events[-1].time_s == 180.0
    assert result.summary["makespan_s"] == 110.0


@pytest.mark.parametrize(
    ("searches", "field"),
    [
        (lambda: [Search("s", ("a",), 2)], "keep"),
        (lambda: [Search("s", ("a",), -1)], "keep"),
        (lambda: [Search("s", ("a", "a"))], "group"),
        (lambda: [Search("s", ("x",))], "group"),
        (lambda: [Search("s", ("a",)), Search("s", ("b",))], "group"),
        (lambda: [Search("s", ("mute",))], "feedback_iterations"),
    ],
)
def test_searches_that_contradict_a_trace_are_refused(searches: object, field: str) -> None:
    jobs = [trial("a"), trial("b"), job("mute", 0.0)]
    with pytest.raises(InputError) as refused:
        Trace.of("t", jobs, searches=searches())  # type: ignore[operator]
    assert refused.value.field == field


HEAD = "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla"
MORE = ",feedback_iterations,group,keep,rank"


def _file(folder: Path, rows: Sequence[str]) -> Path:
    path = folder / "jobs.csv"
    lines = [f"j{i},0,bert,1,1,dp,999,0,{row}" for i, row in enumerate(rows)]
    path.write_text("\n".join((HEAD + MORE, *lines)) + "\n")
    return path


def test_columns_of_a_file(tmp_path: Path) -> None:
    path = _file(tmp_path, ["10,lr,2,3", "10,lr,2,1.5", "20,lr,2,7", "5,,,", ",,,"])
    trace = read_workload(path, name="t", models=["bert"])
    assert [one.feedback_iterations for one in trace.jobs] == [10, 10, 20, 5, None]
    assert trace.searches == (Search("lr", ("j1", "j0", "j2"), 2),)
    assert trace.sha256 != replace(trace, searches=()).sha256
    kept = trace.of_jobs(trace.jobs[1:2]).searches
    assert kept == (Search("lr", ("j1",), 1),)


@pytest.mark.parametrize(
    ("rows", "line", "field"),
    [
        (["10,lr,1,"], 2, "rank"),
        (["10,lr,1,1", "10,lr,1,1"], 3, "rank"),
        (["10,lr,1,-1"], 2, "rank"),
        (["10,lr,1,1", "10,lr,2,2"], 3, "keep"),
        (["10,lr,2,1"], 2, "keep"),
        (["10,lr,0,1"], 2, "keep"),
        (["10,,2,"], 2, "keep"),
        (["10,,,2"], 2, "rank"),
        ([",lr,1,1"], 2, "feedback_iterations"),
        (["0,,,"], 2, "feedback_iterations"),
        (["1001,,,"], 2, "feedback_iterations"),
    ],
)
def test_wrong_columns_are_refused(tmp_path: Path, rows: list[str], line: int, field: str) -> None:
    with pytest.raises(InputError) as refused:
        read_workload(_file(tmp_path, rows), name="t", models=["bert"])
    assert (refused.value.line, refused.value.field) == (line, field)


def test_slices_find_the_best_trial_sooner_than_first_come_first_served() -> None:
    """16 equal trials of 3,600 s, 4 GPUs: after 3,600 + 3 x 60 s, from the first boundary on.

    First come, first served: 3,600 s per four trials, the best one in any group: 9,000 on average.
    """
    found = mo.Scenario(
        "search-twin/16", "1x4:V100", objective="feedback", engine=ReplayConfig(restart_s=0.0)
    ).run()
    assert found.summary.avg_jct_s - 60.0 == 3780.0
    assert found.summary.values["cancelled_jobs"] == 15
    loaded = load_trace("search-twin/16")
    (search,) = loaded.trace.searches
    fifo = mo.Scenario(
        "search-twin/16", "1x4:V100", policy="fifo", engine=ReplayConfig(restart_s=0.0)
    ).run()
    jct_s = {row.job: row.jct_s for row in fifo.jobs}
    place = sorted(jct_s).index(search.ranked[0])
    assert jct_s[search.ranked[0]] - 60.0 == 3600.0 * (1 + place // 4)


def test_search_twin_has_the_stated_jobs_and_searches() -> None:
    loaded, other = load_trace("search-twin"), load_trace("search-twin", seed=1)
    assert loaded.trace.sha256 == load_trace("search-twin").trace.sha256 != other.trace.sha256
    assert {len(search.ranked) for search in loaded.trace.searches} <= {8, 16, 32}
    assert len(loaded.trace.searches) == 8
    assert len(loaded.trace.jobs) == 24 + sum(len(s.ranked) for s in loaded.trace.searches)
    assert all(one.feedback_iterations for one in loaded.trace.jobs)
    for spec in ("search-twin/1", "search-twin/x", "resampled/x1/as-is/search-twin"):
        with pytest.raises(InputError):
            load_trace(spec)
