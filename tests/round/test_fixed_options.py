"""A scheduler that asks every minute with the same options gets its decision every minute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.round.cli import main
from morph_opt.round.decide import decide
from morph_opt.round.reader import parse_snapshot
from morph_opt.scheduling.policies.options import OPTIONS, PolicyOptions
from morph_opt.scheduling.policies.registry import resolve

KIND = {
    "name": "x",
    "gpu_type": "G",
    "gpus": 4,
    "cpus": 8,
    "host_memory_gib": 8,
    "nvlink_gb_per_s": 1,
    "rdma_gb_per_s": 9,
}
JOB = {
    "name": "j",
    "model": "m",
    "submission_s": 0.0,
    "iterations": 100,
    "requested_gpus": 1,
    "requested_plan": "dp",
    "restart_s": 0.0,
}


def document(*jobs: dict[str, Any]) -> dict[str, Any]:
    """One node of 4 GPUs, priced; models run on 1 GPU."""
    return {
        "schema": "morph-opt/round-state/1",
        "round": 0,
        "time_s": 0.0,
        "interval_s": 60.0,
        "cluster": {
            "gpu_types": [{"name": "G", "memory_gib": 80, "price_per_hour": 1.0}],
            "node_types": [KIND],
            "nodes": [{"name": "n", "type": "x"}],
        },
        "jobs": [{**JOB, **job} for job in jobs],
        "speeds": {
            "rows": [
                {"model": "m", "node_type": "x", "shape": "1", "plan": "dp", "iteration_s": 1.0}
            ]
        },
    }


def answered(tmp_path: Path, capsys: Any, line: str, *jobs: dict[str, Any]) -> str:
    """What the command prints."""
    file = tmp_path / "state.json"
    file.write_text(json.dumps(document(*jobs)))
    rules = tmp_path / "rules.toml"
    rules.write_text('[[quota]]\ntenant = "nobody"\ngpus = 1\n')
    stays = tmp_path / "stays.toml"
    stays.write_text('[[non_preemptible]]\njobs = ["*"]\n')
    given = line.replace("RULES", str(rules)).replace("STAYS", str(stays)).split()
    assert main(["--state", str(file), *given]) == 0, capsys.readouterr().err
    return str(capsys.readouterr().out)


LINES = {
    "objective": "--objective jct",
    "solver": "--solver highs-default",
    "formulation": "--formulation node_assignment",
    "method": "--method ladder",
    "rules": "--rules RULES",
    "gap": "--gap 0.01",
    "time_limit_s": "--time-limit-s 5",
    "node_limit": "--node-limit 100",
    "promises": "--promises weight:3",
    "plan_ahead": "--plan-ahead soft --rules STAYS",
    "durations": "--objective throughput --durations noisy:0.5",
    "packing": "--packing",
    "waste_filter": "--waste-filter 0.5",
    "entity_weights": "--objective hierarchical --entity-weights nobody=2",
    "starvation_knob": "--objective las --starvation-knob 2",
    "feedback_share": "--objective feedback --feedback-share 0.5",
}
NOTES = {
    "solver": "settled by step 'knapsack', which asks none; --method exact asks it",
    "promises": "no job is guaranteed",
    "durations": "objective 'throughput' does not ask what jobs have left",
    "packing": "the speeds list no pairs of jobs",
    "waste_filter": "no job has workers that may be on several GPU types",
    "entity_weights": "no job is of tenant 'nobody'",
}
MORE = ("--seed 3", "--explain", "--explain-nodes", "--policy gandiva --packing",
        "--policy gavel:gandiva --packing --seed 2", "--objective makespan --packing",
        "--policy srtf --durations noisy:1", "--objective cost", "--objective feedback",
        "--policy gavel:hierarchical --entity-weights nobody=2")  # fmt: skip


def test_every_option_is_tried() -> None:
    assert set(LINES) == set(OPTIONS)


@pytest.mark.parametrize("jobs", [(), ({},)], ids=["idle", "one job"])
@pytest.mark.parametrize("line", [*LINES.values(), *MORE])
def test_no_option_is_refused_for_what_a_round_lacks(
    line: str, jobs: tuple[dict[str, Any], ...], tmp_path: Path, capsys: Any
) -> None:
    decided = json.loads(answered(tmp_path, capsys, line, *jobs))
    assert len(decided["jobs"]) == len(jobs)
    assert answered(tmp_path, capsys, f"{line} --format text", *jobs).startswith("round 0")


@pytest.mark.parametrize("name", sorted(NOTES))
def test_option_without_effect_is_noted(name: str, tmp_path: Path, capsys: Any) -> None:
    note = f"--{name.replace('_', '-')} has no effect in this round: {NOTES[name]}"
    plain = json.loads(answered(tmp_path, capsys, "--objective throughput", {}))
    assert "notes" not in plain
    noted = json.loads(answered(tmp_path, capsys, LINES[name], {}))
    assert noted["notes"] == [note]
    assert noted["jobs"] == plain["jobs"]
    assert f"note: {note}\n" in answered(tmp_path, capsys, f"{LINES[name]} --format text", {})


def test_option_with_effect_is_not_noted(tmp_path: Path, capsys: Any) -> None:
    some = {"guaranteed": True, "tenant": "nobody"}
    for line in ("--promises weight", "--durations blind", LINES["entity_weights"]):
        assert "notes" not in json.loads(answered(tmp_path, capsys, line, some))


def test_decide_in_python_notes_options_without_effect() -> None:
    snapshot = parse_snapshot(json.dumps(document({})))
    options = PolicyOptions(
        promises="weight", packing=True, entity_weights={"z": 2.0}, objective="hierarchical"
    )
    found = decide(snapshot, options=options)
    assert [note.split()[0] for note in found.notes] == [
        "--promises",
        "--entity-weights",
        "--packing",
    ]
    assert found.decision.report.status == "optimal"


def test_replays_refuse_what_has_no_effect() -> None:
    jobs = [known.job for known in parse_snapshot(json.dumps(document({}))).state.jobs]
    with pytest.raises(InputError, match=r"^promises: has no effect: no job is guaranteed"):
        resolve("milp").require_effect(PolicyOptions(promises="weight"), jobs)


@pytest.mark.parametrize("durations", ["blind", "noisy:0.7"])
def test_an_objective_that_guesses_anyway_refuses_to_be_told(durations: str) -> None:
    """With guaranteed jobs as well: which promises rank first goes by the same guesses."""
    text = json.dumps(document({"guaranteed": True}))
    jobs = [known.job for known in parse_snapshot(text).state.jobs]
    options = PolicyOptions(objective="jct-blind", durations=durations)
    with pytest.raises(InputError, match=r"^durations: has no effect: .* always guesses"):
        resolve("milp", options.objective).require_effect(options, jobs)
    resolve("milp", "throughput").require_effect(options, jobs)
