"""Watched replays: dumped states decide as the replay did; explanations, resume, refusals."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import Allocation, RoundState
from morph_opt.inputs.clusters import load_cluster
from morph_opt.inputs.perf.memory.filter import MemoryFilter
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.replay import cli
from morph_opt.replay.cli import watched
from morph_opt.replay.prepare import prepare
from morph_opt.replay.scenario import Scenario
from morph_opt.round import reader
from morph_opt.round.decide import decide_round
from morph_opt.round.reader import read_snapshot
from morph_opt.scheduling.decision.method import Solved
from morph_opt.scheduling.decision.pose import PosedRound
from morph_opt.scheduling.explanation.case import Case
from morph_opt.scheduling.explanation.report import Effort
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.registry import PolicyOptions

MORE = ["--trace", "naive", "--quiet", "--until-s", "1500"]
CLUSTER = """
[node_type.a]
gpu_type = "A800-80GB"
gpus = 8
cpus = 96
host_memory_gib = 1600
nvlink_gb_per_s = 400
rdma_gb_per_s = 100

[[nodes]]
type = "a"
count = 3
name = "l"
leaf = "left"

[[nodes]]
type = "a"
count = 3
name = "r"
leaf = "right"

[leaf.left]
uplink_gb_per_s = 150
"""
RULES = """
fewer_moves = true
[[quota]]
tenant = "default"
gpus = 40
[[minimum_run]]
seconds = 300
"""


class Recording(Policy):
    """Keeps what was decided."""

    remembers = True  # sees every round

    def __init__(self, policy: object) -> None:
        self._policy = policy
        self.seen: dict[int, tuple[RoundState, Decision]] = {}
        self.name = policy.name  # type: ignore[attr-defined]

    def decide(self, state: RoundState) -> Decision:
        decision: Decision = self._policy.decide(state)  # type: ignore[attr-defined]
        self.seen[state.index] = (state, decision)
        return decision


def here(folder: Path) -> None:
    (folder / "c.toml").write_text(CLUSTER)
    (folder / "r.toml").write_text(RULES)
    (folder / "e.csv").write_text(
        "time_s,node,event\n200,l-0,drain\n400,r-1,fail\n900,l-0,return\n"
    )


@pytest.fixture
def speeds_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """States of a run name the same file of speeds, which is most of what there is to read."""
    monkeypatch.setattr(reader, "read_speeds", cache(reader.read_speeds))


@pytest.mark.usefixtures("speeds_read_once")
@pytest.mark.parametrize("objective", ["throughput", "jct"])
def test_dumped_states_decide_as_the_replay_did(
    objective: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two leaves, an uplink, drained and failed nodes, rules, and a restart in progress."""
    from morph_opt.replay.run import replay

    here(tmp_path)
    monkeypatch.chdir(tmp_path)
    scenario = Scenario("naive", "c.toml", objective=objective)
    scenario = scenario.replaced(events="e.csv", rules="r.toml", until_s=1500.0)
    prepared = prepare(scenario)
    recording = Recording(prepared.policy)
    prepared = watched(
        replace(prepared, policy=recording),  # type: ignore[arg-type]
        tmp_path,
        {"dump_rounds": tmp_path / "dump", "dump_gz": True},
    )
    replay(
        prepared.trace,
        scenario.cluster,
        prepared.policy,
        prepared.truth,
        scenario.engine,
        node_events=prepared.node_events(),
    )
    files = sorted((tmp_path / "dump").glob("round-*.json.gz"))
    assert len(files) == len(recording.seen) > 15
    granted = 0
    for path in files:
        snapshot = read_snapshot(path)
        state, decision = recording.seen[snapshot.state.index]
        assert snapshot.state == state
        assert snapshot.rules == prepared.policy_options.rules
        decided = decide_round(snapshot, PolicyOptions(objective=objective)).decision
        assert decided.allocation == decision.allocation
        assert decided.report.objective == decision.report.objective
        granted += len(decision.allocation.assignments)
    assert granted >= len(files)
    assert any(state.held.assignments for state, _ in recording.seen.values())
    assert any(state.failed for state, _ in recording.seen.values())


@pytest.mark.usefixtures("speeds_read_once")
@pytest.mark.parametrize(
    ("asked", "packing"),
    [
        (
            {
                "trace": "gavel-96",
                "cluster": "1x4:V100+1x4:P100+1x4:K80",
                "packing": True,
                "until_s": 4000.0,
            },
            True,
        ),
        (
            {
                "trace": "gavel-96",
                "cluster": "1x4:V100+1x4:P100+1x4:K80",
                "packing": True,
                "belief": "measured",
                "until_s": 4000.0,
            },
            True,
        ),
        (
            {
                "trace": "naive",
                "cluster": "8x8:A800-80GB",
                "belief": "measured",
                "until_s": 900.0,
            },
            False,
        ),
        (
            {
                "trace": "naive",
                "cluster": "8x8:A800-80GB",
                "belief": "model",
                "online_fit": True,
                "until_s": 900.0,
            },
            False,
        ),
    ],
)
def test_dumped_pairs_and_learnt_beliefs_decide_as_the_replay_did(
    asked: dict[str, Any], packing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partners stand in the states and pairs in the speeds; what was learnt has a file a round."""
    from morph_opt.replay.run import replay

    monkeypatch.chdir(tmp_path)
    scenario = Scenario(objective="jct").replaced(
        **(asked | {"cluster": load_cluster(asked["cluster"])})
    )
    prepared = prepare(scenario)
    recording = Recording(prepared.policy)
    prepared = watched(
        replace(prepared, policy=recording),  # type: ignore[arg-type]
        tmp_path,
        {"dump_rounds": tmp_path / "dump", "dump_every": 7},
    )
    replay(prepared.trace, scenario.cluster, prepared.policy, prepared.truth, scenario.engine)
    files = sorted((tmp_path / "dump").glob("round-*.json"))
    shared = 0
    for path in files:
        snapshot = read_snapshot(path)
        state, decision = recording.seen[snapshot.state.index]
        assert snapshot.state == state
        # The partner is no part of comparisons.
        shared += sum(k.running is not None and bool(k.running.partner) for k in state.jobs)
        assert [k.running and k.running.partner for k in snapshot.state.jobs] == [
            k.running and k.running.partner for k in state.jobs
        ]
        given = PolicyOptions(objective="jct", packing=packing)
        decided = decide_round(snapshot, given, explain=Effort(jobs=1))
        assert decided.decision.allocation == decision.allocation
        assert decided.decision.report.objective == decision.report.objective
        if state.jobs:
            assert decided.explanation is not None
            assert decided.explanation.value == decision.report.objective
    assert len(files) > 2
    assert bool(shared) == packing


def test_every_nth_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*MORE, "--out", "run", "--dump-rounds", "dump", "--dump-every", "10"]) == 0
    names = sorted(path.name for path in Path("dump").iterdir())
    assert names == ["round-000000.json", "round-000010.json", "round-000020.json", "speeds.json"]


def test_watching_changes_nothing_and_is_deterministic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main([*MORE, "--out", "plain"]) == 0
    for name in ("one", "two"):
        assert cli.main([*MORE, "--out", name, "--explain"]) == 0
    events = {Path(name, "events.jsonl").read_bytes() for name in ("plain", "one", "two")}
    assert len(events) == 1
    texts = {Path(name, "explain.jsonl").read_text() for name in ("one", "two")}
    assert len(texts) == 1
    lines = [json.loads(line) for line in texts.pop().splitlines()]
    rounds = (Path("plain") / "rounds.csv").read_text().splitlines()[1:]
    assert [line["round"] for line in lines] == [int(row.split(",")[0]) for row in rounds]
    assert not (Path("plain") / "explain.jsonl").exists()


def test_a_replay_is_explained_from_the_solves_that_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No round is solved twice: those decided without a model once, exact ones not again.

    And memory is judged once for the run.
    """
    monkeypatch.chdir(tmp_path)
    judges: list[object] = []

    class Counted(MemoryFilter):
        def __init__(self, speeds: SpeedModel) -> None:
            judges.append(speeds)
            super().__init__(speeds)

    solve = Case.solve
    solved: list[int] = []

    def once(case: Case, posed: PosedRound, *forced: tuple[int, ...]) -> Solved:
        solved.append(posed.state.index)
        return solve(case, posed, *forced)

    monkeypatch.setattr("morph_opt.scheduling.explanation.explainer.MemoryFilter", Counted)
    monkeypatch.setattr("morph_opt.scheduling.explanation.case.Case.solve", once)
    exact = [*MORE, "--method", "exact", "--gap", "0"]
    assert cli.main([*exact, "--out", "run", "--explain"]) == 0
    lines = [json.loads(line) for line in Path("run/explain.jsonl").read_text().splitlines()]
    assert any(line["prices"] for line in lines)
    assert not any(job["displaces"] for line in lines for job in line["jobs"])
    assert len(judges) <= 1
    rows = csv.DictReader(Path("run/rounds.csv").read_text().splitlines())
    assert solved == [int(row["round"]) for row in rows if row["step"] == "stays"]


def test_a_resumed_run_has_the_same_explanations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while round 12 was being written: its explanation is there, its events are torn."""
    monkeypatch.chdir(tmp_path)
    assert cli.main([*MORE, "--out", "run", "--explain"]) == 0
    run = Path("run")
    whole = {name: (run / name).read_bytes() for name in ("events.jsonl", "explain.jsonl")}
    events = whole["events.jsonl"].decode().splitlines(keepends=True)
    decided = [
        i for i, line in enumerate(events) if '"event": "round"' in line or '"round"' in line
    ]
    cut = events[: decided[11] + 1]
    (run / "events.jsonl.partial").write_text("".join(cut) + events[decided[11] + 1][:7])
    (run / "rounds.csv").rename(run / "rounds.csv.partial")
    explained = whole["explain.jsonl"].decode().splitlines(keepends=True)
    (run / "explain.jsonl").write_text("".join(explained[:14]) + explained[14][:30])
    for name in ("events.jsonl", "summary.json", "jobs.csv"):
        (run / name).unlink()
    assert cli.main(["--resume", "run", "--quiet", "--explain"]) == 0
    for name, content in whole.items():
        assert (run / name).read_bytes() == content, name


@pytest.mark.parametrize(
    "given",
    [
        ["--trace", "naive", "--belief", "model", "--online-fit"],
        ["--trace", "gavel-96", "--packing"],
    ],
)
def test_beliefs_that_learn_and_pairs_are_explained(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every round with what was decided in it, and watching changes nothing."""
    monkeypatch.chdir(tmp_path)
    for name, more in (("plain", []), ("run", ["--explain"])):
        assert cli.main([*given, "--quiet", "--until-s", "900", "--out", name, *more]) == 0
    assert Path("plain/events.jsonl").read_bytes() == Path("run/events.jsonl").read_bytes()
    lines = [json.loads(line) for line in Path("run/explain.jsonl").read_text().splitlines()]
    with Path("run/rounds.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] != "idle"]
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        # Nobody wins by a change in a round of the step `stays`, which looks at no values.
        known = line["optimum"] if row["step"] == "stays" else float(row["objective"])
        assert line["value"] == pytest.approx(known)


def test_rules_in_conflict_stop_a_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A window of maintenance begins on nodes that the running jobs may not leave."""
    monkeypatch.chdir(tmp_path)
    Path("r.toml").write_text(
        '[[gang_limit]]\njobs = ["*"]\nmost = 64\n[[non_preemptible]]\njobs = ["*"]\n'
        '[[maintenance]]\nnodes = ["*"]\nstart_s = 600\nend_s = 900\n'
    )
    assert cli.main([*MORE, "--out", "run", "--rules", "r.toml"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "2 rules contradict each other in this round" in lines[-3]
    assert [line.strip().partition(":")[0] for line in lines[-2:]] == [
        "no_preemption",
        "maintenance",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--explain", "--policy", "fifo"], "policy milp only"),
        (
            ["--dump-rounds", "d", "--online-fit", "--policy", "srtf"],
            "needs the policy milp with --online-fit",
        ),
        (
            ["--dump-rounds", "d", "--belief", "measured", "--policy", "srtf"],
            "needs the policy milp with --belief measured",
        ),
        (["--dump-every", "2"], "together with --dump-rounds only"),
        (["--dump-gz"], "together with --dump-rounds only"),
        (["--dump-rounds", "dump", "--dump-every", "0"], "from 1 to"),
        (["--dump-rounds", "full"], "not empty"),
        (["--dump-rounds", "full/file"], "is a file, not a folder"),
    ],
)
def test_refused(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full", "file").touch()
    assert cli.main([*MORE, *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert words in captured.err
    assert not Path("runs").exists()


def test_states_without_a_place_for_the_speeds_are_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--trace", "easyscale-twin", "--quiet", "--out", str(tmp_path / "run")]
    assert cli.main([*words, "--dump-rounds", str(tmp_path / "dump")]) == 2
    assert "--dump-rounds: cannot store the speeds" in capsys.readouterr().err
    assert not (tmp_path / "dump").exists()


def test_an_empty_decision_is_explained_nowhere() -> None:
    """What the wrapper hands on is the policy's own decision, not a copy."""
    from morph_opt.round.watch import WatchedPolicy

    class Lazy(Policy):
        name = "lazy"
        answer = Decision(Allocation())

        def decide(self, state: RoundState) -> Decision:
            return self.answer

    policy = WatchedPolicy(Lazy(), [])
    assert policy.name == "lazy"
    assert policy.decide(None) is Lazy.answer  # type: ignore[arg-type]
