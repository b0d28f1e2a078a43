"""Deadlines of Gavel's traces and of one's own; both layouts of the fair data sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from morph_opt.core.domain import ExecutionPlan, InputError, Job
from morph_opt.inputs.traces.morphling import read_workload
from morph_opt.inputs.traces.registry import home_cluster, load_trace
from morph_opt.inputs.traces.twins.gavel import SLO_FACTORS

TABLE = {
    "k80": {"('A', 1)": {"null": 1.0}, "('B', 2)": {"null": 0.0}},
    "v100": {"('A', 1)": {"null": 4.0}, "('B', 2)": {"null": 5.0}},
}
HEADER = "name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla"


def line(job_type: str, steps: int, gang: int, weight: str, slo: str, arrival: int) -> str:
    return "\t".join(
        [job_type, "c", "d", "-n", "1", str(steps), str(gang), weight, slo, str(arrival)]
    )


@pytest.mark.parametrize("inner", ["", "scheduler"])
def test_an_slo_is_a_multiple_of_the_time_alone_on_the_fastest_type(
    inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "gavel" / inner
    folder = root / "traces" / "physical_cluster"
    folder.mkdir(parents=True)
    (root / "simulation_throughputs.json").write_text(json.dumps(TABLE))
    rows = [line("A", 400, 1, "1", "2.0", 50), line("B", 100, 2, "1", "1.2", 60)]
    rows.append(line("A", 400, 1, "1", "-1.000000", 70))
    (folder / "x.trace").write_text("\n".join(rows))
    (root / "traces" / "msr" / "seed=0").mkdir(parents=True)
    (root / "traces" / "msr" / "seed=0" / "y.trace").write_text("A\tc\t-n\t1\t7\t3.0\t1")
    monkeypatch.setenv("MORPH_OPT_DATA", str(tmp_path))
    jobs = load_trace("gavel/x").trace.jobs
    # The first arrival is instant 0; A does 4 steps/s on a V100, B 5.
    assert [job.deadline_s for job in jobs] == [200.0, 10.0 + 1.2 * 20.0, None]
    assert load_trace("gavel/msr_seed0/y").trace.jobs[0].deadline_s is None


@pytest.mark.parametrize(("weight", "slo"), [("0", "-1"), ("-2", "-1"), ("1", "0"), ("1", "-3")])
def test_a_bad_weight_or_slo_names_job_type_and_rule(
    weight: str, slo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gavel" / "traces" / "physical_cluster"
    folder.mkdir(parents=True)
    (tmp_path / "gavel" / "simulation_throughputs.json").write_text(json.dumps(TABLE))
    rows = [line("A", 400, 1, "1", "-1", 0), line("B", 9, 2, weight, slo, 0)]
    (folder / "x.trace").write_text("\n".join(rows))
    monkeypatch.setenv("MORPH_OPT_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"line 2, .*: must be above 0.* \(job 1, B\)$"):
        load_trace("gavel/x")


def test_the_twin_with_slos_is_the_twin_with_slos() -> None:
    plain, bound = load_trace("gavel-96"), load_trace("gavel-96/slo")
    jobs = bound.trace.jobs
    assert tuple(replace(job, deadline_s=None) for job in jobs) == plain.trace.jobs
    table = bound.truth.throughputs  # type: ignore[attr-defined]
    factors = []
    for job in jobs:
        key = (job.model.rpartition(" x")[0], job.requested_gpus)
        assert job.deadline_s is not None
        alone_s = job.iterations / table.fastest(key)
        factors.append(round((job.deadline_s - job.submission_s) / alone_s, 6))
    assert sorted(set(factors)) == list(SLO_FACTORS)
    assert all(factors.count(factor) == 32 for factor in SLO_FACTORS)
    other = load_trace("gavel-96/slo", seed=1).trace
    assert other.sha256 != bound.trace.sha256 != plain.trace.sha256
    assert "gavel-96/slo: generated statistical twin" in bound.notice


def test_own_deadlines(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = ["a,5,m,8,64,dp,9,0,100.5", "b,5,m,8,64,dp,9,0,-1"]
    path.write_text("\n".join([HEADER + ",deadline", *rows]))
    jobs = read_workload(path, name="t", models=["m"]).jobs
    assert [job.deadline_s for job in jobs] == [100.5, None]


def test_a_deadline_changes_the_digest_and_its_absence_does_not() -> None:
    job = Job("a", "m", 0.0, 9, 1, ExecutionPlan.parse("dp"))
    assert job.deadline_s is None
    for bad in (0.0, -1.0):
        with pytest.raises(InputError, match="SLO in the past: job a"):
            replace(job, deadline_s=bad)
    with pytest.raises(InputError, match="deadline_s: must be a finite number"):
        replace(job, deadline_s=float("inf"))
    with pytest.raises(InputError, match="iterations: must be at most"):
        replace(job, iterations=10**19)


@pytest.mark.parametrize("name", ["gavel-96", "gavel-96/slo", "gavel/max_min_fairness"])
def test_gavels_traces_have_a_cluster_of_their_own(name: str) -> None:
    assert home_cluster(name) == "1x4:V100+1x4:P100+1x4:K80"
    assert home_cluster("base") is None
    assert home_cluster("tiresias-480") is None


@pytest.mark.parametrize(("steps", "slo"), [(10**25, "-1"), (10**9, "1e308")])
def test_numbers_out_of_bounds_name_the_line(
    steps: int, slo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gavel" / "traces" / "physical_cluster"
    folder.mkdir(parents=True)
    (tmp_path / "gavel" / "simulation_throughputs.json").write_text(json.dumps(TABLE))
    (folder / "x.trace").write_text(line("A", steps, 1, "1", slo, 0))
    monkeypatch.setenv("MORPH_OPT_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"x\.trace, line 1, (total_steps|deadline_s): must be"):
        load_trace("gavel/x")
