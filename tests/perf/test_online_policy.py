"""Learning inside a replay: better decisions, and the same bytes after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.perf.biased import BiasedModel
from morph_opt.core.domain import (
    A800_NODE,
    Cluster,
    ExecutionPlan,
    InputError,
    Job,
    PlanFamily,
    RoundState,
    Trace,
)
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.perf.fitting.online import OnlineModel
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.replay import cli
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.online import OnlinePolicy
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.runs.result import ReplayResult

TRUTH = builtin_model()
CLUSTER = Cluster.uniform(2, A800_NODE)
MODELS = ("bert", "gpt2", "t5", "roberta")
TRACE = Trace(
    "learning",
    tuple(
        Job(
            f"{MODELS[index % 4]}-{index}",
            MODELS[index % 4],
            300.0 * index,
            3000,
            4,
            ExecutionPlan.parse("zero-dp"),
        )
        for index in range(12)
    ),
)


def make(belief: SpeedModel) -> Policy:
    return make_policy("milp", belief, PolicyOptions(objective="jct", time_limit_s=60.0))


def wrong() -> SpeedModel:
    """Believes sharded plans twice as fast as they are."""
    return BiasedModel(TRUTH, PlanFamily.ZERO_OFFLOAD, 0.3)


def run(policy: Policy, out: Path | None = None, resume: bool = False) -> ReplayResult:
    config = ReplayConfig(interval_s=60.0, restart_s=120.0)
    return replay(TRACE, CLUSTER, policy, TRUTH, config, out=out, resume=resume)


def learner() -> tuple[OnlineModel, OnlinePolicy]:
    belief = OnlineModel(wrong())
    return belief, OnlinePolicy(belief, TRUTH, make)


def test_learning_mends_a_wrong_belief() -> None:
    right = float(run(make(TRUTH)).summary["avg_jct_s"] or 0.0)
    misled = float(run(make(wrong())).summary["avg_jct_s"] or 0.0)
    belief, policy = learner()
    learnt = float(run(policy).summary["avg_jct_s"] or 0.0)
    assert right < learnt < misled
    assert learnt - right < 0.6 * (misled - right)
    assert belief.version > 0


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_a_resumed_run_believes_and_decides_the_same(tmp_path: Path, share: float) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    run(learner()[1], whole)
    events = (whole / "events.jsonl").read_bytes()
    cut = events[: int(share * len(events))]
    part.mkdir()
    (part / "events.jsonl.partial").write_bytes(cut)
    lines = (whole / "rounds.csv").read_text().splitlines(keepends=True)
    rounds = cut.count(b'{"event":"round"')
    (part / "rounds.csv.partial").write_text("".join(lines[: rounds + 1]))
    belief, policy = learner()
    run(policy, part, resume=True)
    assert (part / "events.jsonl").read_bytes() == events
    assert (part / "jobs.csv").read_bytes() == (whole / "jobs.csv").read_bytes()
    assert belief.version > 0


def test_jobs_in_their_start_up_show_nothing() -> None:
    belief, policy = learner()
    short = Trace("short", (TRACE.jobs[0],))
    config = ReplayConfig(interval_s=60.0, restart_s=120.0, until_s=180.0)
    replay(short, CLUSTER, policy, TRUTH, config)
    assert belief.version == 0


def test_policies_with_a_memory_are_refused() -> None:
    class Remembering(Policy):
        name = "remembering"

        def observe(self, state: RoundState) -> None:
            """Has a memory."""

        def decide(self, state: RoundState) -> Decision:
            raise AssertionError("is refused before")

    with pytest.raises(InputError, match="'remembering' remembers earlier rounds"):
        OnlinePolicy(OnlineModel(TRUTH), TRUTH, lambda _: Remembering())  # type: ignore[arg-type]


def test_online_fit_is_an_option_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--trace", "base", "--until-s", "4000", "--belief", "model", "--online-fit"]
    cli.main([*arguments, "--out", str(tmp_path / "run"), "--json", "--quiet"])
    assert '"belief": "model+online"' in capsys.readouterr().out
    assert "online_fit = true" in (tmp_path / "run" / "config.toml").read_text()
