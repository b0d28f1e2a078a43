"""Decisions from a file: the document, the command line, its exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import morph_opt as mo
from morph_opt.core.domain import Allocation, RoundState
from morph_opt.round import cli
from morph_opt.round.decide import decide_round, make_explainer
from morph_opt.round.reader import parse_snapshot
from morph_opt.round.snapshot import Snapshot
from morph_opt.scheduling.decision.rules.model import NonPreemptible, OperatorRules, TenantQuota
from morph_opt.scheduling.explanation.conflict import RuleConflictError
from morph_opt.scheduling.explanation.report import Effort
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.strict.rules import AllocationError
from tests.policies.worlds import (
    LINEAR,
    cluster,
    grants,
    queued,
    random_world,
    running,
    state,
)
from tests.round.documents import document, spoiled
from tests.waiting import PATIENCE_S


def snapshot() -> Snapshot:
    """Job a runs on one of two nodes, b and c wait."""
    here = state(cluster(4, 4), running("a", {0: [0, 1]}), queued("b", 4), queued("c", 8))
    return Snapshot(here, LINEAR)


@pytest.mark.parametrize("objective", ["throughput", "jct"])
@pytest.mark.parametrize("seed", range(15))
def test_decides_as_the_policy_does(seed: int, objective: str) -> None:
    speeds, here = random_world(np.random.default_rng(seed))
    options = PolicyOptions(objective=objective)
    decided = decide_round(Snapshot(here, speeds), options)
    expected = make_policy("milp", speeds, options).decide(here)
    assert decided.decision.allocation == expected.allocation
    assert decided.decision.report.objective == expected.report.objective


def test_the_document() -> None:
    decided = decide_round(snapshot(), PolicyOptions(objective="throughput"))
    found = decided.to_json()
    granted = grants(decided.decision.allocation)
    assert found["schema"] == "morph-opt/round-decision/1"
    assert (found["round"], found["policy"], found["objective"]) == (3, "milp", "throughput")
    assert (found["status"], found["explanation"]) == ("optimal", None)
    assert found["gap"] <= 1e-3
    assert found["bound"] >= found["value"] > 0
    assert found["size"]["jobs"] == 3
    assert found["size"]["candidates"] > 0
    # Tables over GPUs decide such a round: there is no model.
    assert (found["step"], found["size"]["rows"]) == ("knapsack", 0)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert [job["job"] for job in found["jobs"]] == ["a", "b", "c"]
    for job in found["jobs"]:
        nodes = {int(part["node"][1:]): tuple(part["gpus"]) for part in job["nodes"]}
        assert nodes == granted.get(job["job"], {})
        assert job["gpus"] == sum(map(len, nodes.values()))
        assert (job["action"] == "queue") == (job["plan"] is None) == (not nodes)
        if nodes:
            assert job["iteration_s"] == 8.0 / job["gpus"]
    stays = [job["job"] for job in found["jobs"] if job["action"] == "stay"]
    assert stays == ["a"]
    assert [job["was_running"] for job in found["jobs"]] == [True, False, False]


def test_the_table_says_which_running_job_is_stopped() -> None:
    """Work left of months on all GPUs, and jobs of minutes that wait for them."""
    document = json.loads(
        (Path(__file__).parents[2] / "docs/schema/example-state.json").read_text()
    )
    document["rules"] = {}
    document["cluster"]["nodes"] = document["cluster"]["nodes"][:1]
    document["jobs"][0]["iterations"] = 10**8
    decided = mo.decide(document)
    first = decided.to_json()["jobs"][0]
    assert (first["action"], first["was_running"]) == ("queue", True)
    actions = [row[1] for row in decided.to_table().rows]
    assert actions[0] == "stop"
    assert set(actions[1:]) == {"start", "queue"}


def test_decide_with_other_policies_and_without_jobs() -> None:
    found = decide_round(snapshot(), policy="fifo").to_json()
    assert (found["status"], found["objective"], found["gap"]) == ("heuristic", None, None)
    assert ", value " in decide_round(snapshot(), policy="sia").to_text()  # has no objective
    idle = Snapshot(state(cluster(4)), LINEAR)
    assert decide_round(idle, explain=Effort()).to_json()["status"] == "idle"


def test_says_which_jobs_get_more_than_they_ask_for() -> None:
    """The first decision of an own state: what asks for 1 and gets 8 is named."""
    few = Snapshot(state(cluster(8), queued("eval", 1), queued("train", 4)), LINEAR)
    found = decide_round(few, PolicyOptions(objective="throughput"))
    assert found.beyond == ("eval gets 8 GPUs and asks for 1",)
    assert found.to_json()["beyond_request"] == list(found.beyond)
    assert "\nbeyond its request: eval gets 8 GPUs and asks for 1\n" in found.to_text()
    asked = decide_round(few, policy="fifo")
    assert asked.beyond == ()
    assert "beyond_request" not in asked.to_json()


def test_equal_input_equal_text() -> None:
    texts = {json.dumps(decide_round(snapshot(), explain=Effort()).to_json()) for _ in range(3)}
    assert len(texts) == 1
    assert "_ms" not in texts.pop()


def make_twice(belief: object, options: object) -> Any:
    """A policy that gives the same GPU to every job."""
    del belief, options

    class Twice(Policy):
        name = "twice"

        def decide(self, here: RoundState) -> Decision:
            held = here.jobs[0].running
            assert held is not None
            from dataclasses import replace

            pair = (held, replace(held, job=here.jobs[1].job.name))
            return Decision(Allocation(pair))

    return Twice()


def test_a_policy_of_ones_own_is_not_believed() -> None:
    with pytest.raises(AllocationError, match=r"one_holder: node n0, .* held by another job \(a\)"):
        decide_round(snapshot(), policy="tests.round.test_decide:make_twice")


def test_solver_failure_is_one_line_and_the_log_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and exit status 1; in a replay's log a line with an error, and the log goes on."""
    from morph_opt.round.watch import ExplanationLog
    from morph_opt.scheduling.explanation.explainer import Explainer
    from morph_opt.scheduling.explanation.report import UnexplainedError

    def fail(self: Explainer, *given: object) -> None:
        raise UnexplainedError("nothing to explain: time limit")

    monkeypatch.setattr(Explainer, "explain", fail)
    path = write(tmp_path, document())
    assert cli.main(["--state", path, "--explain"]) == 1
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "error: nothing to explain: time limit\n")
    options, here = PolicyOptions(), snapshot()
    log = ExplanationLog(tmp_path / "e.jsonl", make_explainer(options))
    log.decided(here.state, decide_round(here, options).decision)
    line = json.loads((tmp_path / "e.jsonl").read_text())
    assert line == {"round": 3, "time_s": 180.0, "error": "nothing to explain: time limit"}


# ---------------------------------------------------------------- the command line


def write(folder: Path, value: Any) -> str:
    path = folder / "s.json"
    path.write_text(json.dumps(value))
    return str(path)


def clash() -> Any:
    """Job a may not be moved and its tenant may hold nothing; a third rule is innocent."""
    value = document()
    value["rules"] = {
        "quota": [{"tenant": "red", "gpus": 0}],
        "gang_limit": [{"jobs": ["b"], "most": 2}],
        "non_preemptible": [{"jobs": ["a"]}],
    }
    return value


def test_prints_the_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, document())
    assert cli.main(["--state", path, "--objective", "jct", "--indent", "2"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert captured.out.startswith('{\n  "schema"')
    assert (found["objective"], captured.err) == ("jct", "")


def test_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, document())
    assert cli.main(["--state", path, "--explain", "--explain-nodes"]) == 0
    captured = capsys.readouterr()
    explanation = json.loads(captured.out)["explanation"]
    assert [job["job"] for job in explanation["jobs"]] == ["a", "b"]
    assert all(price["node_gain"] is not None for price in explanation["prices"])
    assert captured.err.startswith("round 3 at 180 s: saved-time ")
    assert cli.main(["--state", path, "--explain", "--format", "text"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "s per iteration" in captured.out
    assert "price per GPU" in captured.out


def test_snapshot_is_read_from_stdin(project_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "morph_opt.round", "--state", "-"],
        input=json.dumps(document()),
        cwd=project_root,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "morph-opt/round-decision/1"


def test_rules_in_conflict_one_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, clash())
    assert cli.main(["--state", path]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    expected = f"error: {path}, rules: 2 rules contradict each other in this round (smallest set)"
    assert lines[0] == expected
    assert [line.strip().partition(":")[0] for line in lines[1:]] == ["quota", "no_preemption"]


def test_rules_from_a_file_take_the_place_of_the_snapshots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, clash())
    rules = tmp_path / "rules.toml"
    rules.write_text('[[non_preemptible]]\njobs = ["a"]\n')
    assert cli.main(["--state", path, "--rules", str(rules)]) == 0
    first = json.loads(capsys.readouterr().out)["jobs"][0]
    assert (first["job"], first["action"]) == ("a", "stay")
    rules.write_text("[[quota]]\ntenant = 'red'\ngpus = 0\n[[non_preemptible]]\njobs = ['*']\n")
    assert cli.main(["--state", path, "--rules", str(rules)]) == 2
    assert f"error: {rules}, rules: 2 rules" in capsys.readouterr().err


def test_rules_in_conflict_as_a_library() -> None:
    rules = OperatorRules((NonPreemptible(("a",)), TenantQuota("default", 0)))
    here = snapshot()
    with pytest.raises(RuleConflictError) as raised:
        decide_round(Snapshot(here.state, here.speeds, rules))
    assert raised.value.conflict.items == rules.rules
    assert raised.value.conflict.smallest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--state", "none.json"], "none.json"),
        ([], "--state"),
        (["--state", "{s}", "--objective", "joy"], "unknown objective 'joy'"),
        (["--state", "{r}", "--policy", "coin"], "unknown policy 'coin'"),
        (["--state", "{s}", "--solver", "abacus"], "abacus"),
        (["--state", "{s}", "--gap", "-1"], "gap"),
        (["--state", "{s}", "--gap", "much"], "a number from 0 to 1, got 'much'"),
        (["--state", "{s}", "--rules", "none.toml"], "none.toml"),
        (["--state", "{s}", "--policy", "fifo", "--rules", "r.toml"], "r.toml"),
        (["--state", "{r}", "--policy", "fifo", "--explain"], "policy milp only"),
        (["--state", "{s}", "--explain", "--explain-jobs", "-1"], "from 0 to"),
        (["--state", "{s}", "--format", "xml"], "xml"),
        (["--state", "{s}", "--colour", "red"], "--colour"),
        (["--state", "{b}"], "jobs[0].running.nodes[0].node: there is no node 'n9'"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = spoiled("jobs.0.running.nodes.0.node", "n9")
    values = {"{s}": document(), "{r}": spoiled("rules", ...), "{b}": bad}
    for key, value in values.items():
        (tmp_path / f"{key[1]}.json").write_text(json.dumps(value))
    given = [str(tmp_path / f"{a[1]}.json") if a in values else a for a in arguments]
    try:
        status = cli.main(given)
    except SystemExit as left:
        status = int(left.code or 0)
    captured = capsys.readouterr()
    assert (status, captured.out) == (2, "")
    assert captured.err.count("\n") == 1, captured.err
    assert words in captured.err


def test_the_conflict_names_rules_in_the_order_of_the_file() -> None:
    """The job must stay where a window has begun."""
    value = document()
    value["rules"] = {
        "maintenance": [{"nodes": ["n0"], "start_s": 0.0, "end_s": 600.0}],
        "minimum_run": [{"seconds": 3600.0}],
    }
    with pytest.raises(RuleConflictError) as raised:
        decide_round(parse_snapshot(json.dumps(value)))
    assert [line.partition(":")[0] for line in raised.value.lines] == ["maintenance", "minimum_run"]
