"""Jobs, policies and objectives given as values: the same runs as by name, and nothing shared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import morph_opt as mo

STATE = Path("docs/schema/example-state.json")


class SmallestFirst(mo.FillingPolicy):
    """Remembers how many rounds it decided, as a policy should not between runs."""

    name = "smallest-first"

    def __init__(self, *_: object) -> None:
        super().__init__(*_)
        self.rounds = 0

    def fill(self, filling):
        self.rounds += 1
        for job in filling.running:
            filling.keep(job)
        for job in sorted(filling.waiting, key=lambda j: filling.states[j].job.requested_gpus):
            filling.start(job)


class ManyJobs(mo.Stateless):
    """As many jobs as possible."""

    name = "many-jobs"

    def __init__(self, *_: object) -> None:
        pass

    def goals(self, problem):
        weight = problem.jobs.weight[problem.options.members.job]
        return (mo.Level.of(problem, "jobs", "weight", weight),)


def events(run: mo.Run) -> list[object]:
    return list(run.events)[1:]


@pytest.mark.parametrize("kind", ["loaded", "trace"])
def test_trace_as_a_value_replays_as_by_name(kind: str) -> None:
    loaded = mo.load_trace("naive")
    by_name = mo.Scenario("naive", policy="srtf")
    by_value = mo.Scenario(loaded if kind == "loaded" else loaded.trace, policy="srtf")
    assert by_value.trace is (loaded if kind == "loaded" else loaded.trace)
    assert events(by_value.run()) == events(by_name.run())
    assert events(by_value.replaced(trace="naive").run()) == events(by_name.run())
    again = by_name.replaced(trace=loaded, until_s=3600.0)
    assert again.trace is loaded
    assert again.run().summary.completed < 10


def test_policy_as_class_object_or_path_gives_the_same_run() -> None:
    path = mo.Scenario("naive", policy=f"{__name__}:SmallestFirst")
    made = mo.Scenario("naive", policy=SmallestFirst)
    assert made.policy is SmallestFirst
    own = SmallestFirst(mo.load_trace("naive").truth, None)
    held = mo.Scenario("naive", policy=own)
    assert held.policy is own
    assert "SmallestFirst" in repr(held)
    runs = [events(one.run()) for one in (path, made, held, held)]
    assert all(run == runs[0] for run in runs)
    assert own.rounds == 0, "every run gets a copy"


def test_decide_takes_policy_and_objective_as_values() -> None:
    document = json.loads(STATE.read_text("utf-8"))
    for objective in ("jct", "auto"):
        named = mo.decide(STATE, objective=objective)
        assert mo.decide(document, objective=objective).to_json() == named.to_json()
    assert mo.decide(document, policy=SmallestFirst).decision.report.status == "heuristic"

    by_class = mo.decide(STATE, objective=ManyJobs)
    by_object = mo.decide(STATE, objective=ManyJobs())
    assert by_class.decision.allocation == by_object.decision.allocation


def test_objective_value_with_conflicting_options_is_refused() -> None:
    from morph_opt.scheduling.policies.options import PolicyOptions

    with pytest.raises(mo.InputError, match="objective: is given next to options, which has it"):
        mo.decide(STATE, objective="jct", options=PolicyOptions())


def test_scenario_is_hashable_and_has_a_short_repr() -> None:
    one = mo.Scenario("naive", "2x8", policy="fifo", seed=3)
    assert {one: 1}[mo.Scenario("naive", "2x8", policy="fifo", seed=3)] == 1
    assert (one.trace, one.policy, one.objective, one.seed, one.state) == (
        "naive",
        "fifo",
        "auto",
        3,
        None,
    )
    values = [one, one.cluster, mo.load_trace("base"), mo.load_trace("base").trace]
    values += [mo.read_snapshot(STATE), mo.decide(STATE)]
    run = mo.Scenario("naive", policy="fifo").run()
    values += [run, run.summary]
    assert max(len(repr(value)) for value in values) < 160


def test_notebooks_show_tables() -> None:
    run = mo.Scenario("naive", policy="fifo").run()
    for value in (run, run.summary, run.jobs, mo.decide(STATE), run.jobs.to_table("job")):
        html = value._repr_html_()
        assert "<table>" in html
        assert "0x" not in html
    assert "avg_jct_s" in run.summary._repr_html_()
