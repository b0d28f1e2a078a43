"""Broken promises are counted from the log, whatever the policy knows of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import morph_opt as mo
from morph_opt.simulation.events.log import RoundDecided
from morph_opt.simulation.runs.summary import FIGURES

JOBS = """name,submission_time,application,num_gpus,num_cpus,exec_plan,steps,is_sla
a,0,gpt2,8,64,zero-dp,1500,1
b,0,gpt2,8,64,zero-dp,1200,1
c,90,gpt2,8,64,zero-dp,900,1
"""
POLICIES = (
    *("fifo", "fifo:skip", "srtf", "equal_split", "allox", "gandiva", "tiresias:2d-las"),
    *("tiresias:gittins", "gavel:ftf", "gavel:fairness", "morphling", "sia", "pollux", "optimus"),
    "milp",
)


def run_of(folder: Path, policy: str) -> mo.Run:
    (folder / "jobs.csv").write_text(JOBS, encoding="utf-8")
    scenario = mo.Scenario(str(folder / "jobs.csv"), "1x8", policy=policy)
    scenario = scenario.replaced(until_s=6000.0, interval_s=240.0, restart_s=10.0)
    return scenario.run(folder / "run")


@pytest.mark.parametrize("policy", POLICIES)
def test_rounds_in_which_guaranteed_jobs_wait_are_short(tmp_path: Path, policy: str) -> None:
    """Three jobs of 8 GPUs on 8: whoever decides, one of them is below its speed while two wait."""
    run = run_of(tmp_path, policy)
    values = run.summary.values
    assert all(name in FIGURES or name.startswith("gpu_utilization_") for name in values)
    waiting = [e for e in run.events if isinstance(e, RoundDecided) and e.running < e.active]
    crowded = [e for e in run.events if isinstance(e, RoundDecided) and e.active > 1]
    assert len(crowded) > 5
    assert values["rounds_guarantees_short"] >= len(crowded)
    assert values["guarantee_shortfall_sum"] >= len(waiting)
    short = sum(row.report.guarantees_short > 0 for row in run.rounds)
    assert short == values["rounds_guarantees_short"]
    assert sum(row.report.guarantee_shortfall for row in run.rounds) == pytest.approx(
        values["guarantee_shortfall_sum"]
    )
    asked = any(row.report.guarantees_possible is not None for row in run.rounds)
    assert values["rounds_guarantees_missed"] == (0 if asked else None)
    assert asked is (policy == "milp")


def test_promise_counts_of_policy_and_log_agree(tmp_path: Path) -> None:
    for policy in ("morphling", "milp"):
        folder = tmp_path / policy
        folder.mkdir()
        run = run_of(folder, policy)
        said = [e for e in run.events if isinstance(e, RoundDecided)]
        for event, row in zip(said, run.rounds, strict=True):
            assert (event.guarantees_short, event.guarantee_shortfall) == pytest.approx(
                (row.report.guarantees_short, row.report.guarantee_shortfall)
            )
