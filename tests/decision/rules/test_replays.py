"""Replays under rules end, keep them in every round, and can be resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from morph_opt.core.domain import RoundState, default_cluster
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.cli import main
from morph_opt.replay.run import replay
from morph_opt.scheduling.decision.rules.audit import audit
from morph_opt.scheduling.decision.rules.model import (
    GangLimit,
    NodeRule,
    OperatorRules,
    TenantQuota,
)
from morph_opt.scheduling.decision.rules.spec import read_rules
from morph_opt.scheduling.decision.rules.stranded import stranded_jobs
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig

RULES = """
fewer_moves = true
tighter_packing = true

[[quota]]
tenant = "default"
gpus = 48

[[minimum_run]]
seconds = 300

[[restart_limit]]
per_hour = 4

[[maintenance]]
nodes = ["node-7"]
start_s = 1210
end_s = 2400
lead_s = 300

[[gang_limit]]
jobs = ["bert-*"]
least = 2
most = 4

[[node_rule]]
jobs = ["roberta-*"]
not_nodes = ["node-0"]
"""


@dataclass
class Audited(Policy):
    """A policy whose decisions are audited from outside."""

    remembers = True  # sees every round

    inner: Policy
    rules: OperatorRules
    seen: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.inner.name

    def decide(self, state: RoundState) -> Decision:
        decision = self.inner.decide(state)
        assert audit(state, decision.allocation, self.rules) == ()
        self.seen.append(decision.allocation.gpus)
        return decision


def rules_file(folder: Path) -> Path:
    path = folder / "rules.toml"
    path.write_text(RULES, "utf-8")
    return path


@pytest.mark.parametrize("objective", ["jct", "throughput"])
@pytest.mark.parametrize(("trace", "until_s"), [("naive", None), ("base", 3600.0)])
def test_a_replay_under_all_rules_ends(
    trace: str, until_s: float | None, objective: str, tmp_path: Path
) -> None:
    rules = read_rules(rules_file(tmp_path))
    loaded = load_trace(trace)
    options = PolicyOptions(objective=objective, gap=1e-2, rules=rules)
    policy = Audited(make_policy("milp", loaded.truth, options), rules)
    config = ReplayConfig(until_s=until_s)
    result = replay(loaded.trace, default_cluster(), policy, loaded.truth, config)
    assert result.summary["ended"] == ("complete" if until_s is None else "horizon")
    assert result.summary["fallback_rounds"] == 0
    assert 0 < max(policy.seen) <= 48


def test_the_command_line_takes_rules(tmp_path: Path) -> None:
    out = tmp_path / "run"
    rules = rules_file(tmp_path)
    arguments = ["--trace", "naive", "--objective", "jct", "--rules", str(rules)]
    assert main([*arguments, "--out", str(out), "--quiet"]) == 0
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    assert summary["ended"] == "complete"
    assert f'rules = "{rules}"' in (out / "config.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[quota]]\ngpus = 1", "line 1, quota[0].tenant: is missing"),
        ('[[maintenance]]\nnodes = ["node-8"]\nstart_s = 0\nend_s = 1', "'node-8' matches nothing"),
    ],
)
def test_bad_rules_end_the_command_line_with_2(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text, "utf-8")
    out = tmp_path / "run"
    assert main(["--trace", "naive", "--rules", str(path), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert str(path) in error
    assert len(error.strip().splitlines()) == 1
    assert not out.exists()


STRANDING = {
    "gang_limit": ('[[gang_limit]]\njobs = ["llama30-*"]\nmost = 16', "at most 16 GPUs"),
    "node_rule": (
        '[[node_rule]]\njobs = ["llama30-1"]\nonly_nodes = ["node-0", "node-1"]',
        "only on nodes node-0, node-1",
    ),
    "quota": ('[[quota]]\ntenant = "default"\ngpus = 8\nborrow_gpus = 8', "may borrow 8"),
    "together": (
        '[[gang_limit]]\njobs = ["llama30-*"]\nleast = 48\n'
        '[[quota]]\ntenant = "default"\ngpus = 40',
        "gang_limit: llama30-* hold at least 48 GPUs",
    ),
}


@pytest.mark.parametrize("name", STRANDING)
def test_a_job_that_rules_never_let_run_is_named_before_the_replay(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, said = STRANDING[name]
    path = tmp_path / "rules.toml"
    path.write_text(text, "utf-8")
    out = tmp_path / "run"
    assert main(["--trace", "naive", "--rules", str(path), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "job llama30-1: can never run: the operator's rules leave it no configuration" in error
    assert said in error
    assert not out.exists()


def test_rules_that_leave_every_job_something_strand_nobody() -> None:
    loaded = load_trace("naive")
    rules = OperatorRules(
        (
            GangLimit(("llama30-*",), most=24),
            NodeRule(("*",), not_nodes=("node-7",)),
            TenantQuota("default", 8, None),
        )
    )
    cluster = default_cluster()
    assert stranded_jobs(rules, loaded.trace.jobs, loaded.truth, cluster) == ()
    assert stranded_jobs(OperatorRules(), loaded.trace.jobs, loaded.truth, cluster) == ()
