"""Scenarios: composed, short, written and read back; three seeds that draw apart."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import Cluster, InputError, default_cluster
from morph_opt.replay.cli import make_parser, scenario_from
from morph_opt.replay.prepare import prepare
from morph_opt.replay.scenario import Failures, Scenario, Scheduler, Workload, read_scenario
from tests.engine.toys import node_type

SHUFFLED = Scenario(
    "tests.engine.toys:trace/8",
    Cluster.uniform(2, node_type(4)),
    policy="tests.engine.toys:make_shuffler",
)


def test_short_words_are_fields_of_the_parts() -> None:
    scenario = Scenario("mt", "2x4:A800-80GB", objective="jct", policy="milp", seed=7)
    assert scenario.workload == Workload("mt", seed=7)
    assert scenario.scheduler == Scheduler(objective="jct", seed=7)
    assert scenario.failures == Failures(seed=7)
    assert scenario.cluster.gpus == 8


def test_the_default_cluster_is_the_trace_s() -> None:
    assert Scenario("base").cluster == default_cluster()
    assert {kind.name for kind in Scenario("gavel-96").cluster.gpu_types} == {"V100", "P100", "K80"}


def other(part: Any, **named: Any) -> Any:
    """The part with another value in every field, of the same type, that every range allows."""
    values = {}
    for name in (f.name for f in fields(part)):
        value = getattr(part, name)
        if isinstance(value, dict):
            values[name] = {"a": 2.0, "b": 1.5}
        elif isinstance(value, str):
            values[name] = f"{value}x"
        elif isinstance(value, bool):
            values[name] = not value
        elif value is not None:
            values[name] = 0 if value == 1 else value + 1
    return replace(part, **(values | named))


def test_every_field_survives_its_file(tmp_path: Path) -> None:
    """At its default, None included, and at another value."""
    plain = Scenario()
    of_a_log = {
        "jobs_as": "sampled", "scaling": "amdahl:0.9", "mix": {"bert": 1.0}, "gpu_types": "ignore",
        "guarantee": "none", "run_s": {"bert": 3.0}, "timezone": "UTC", "procs_per_gpu": 2,
        "columns": "xdmod", "gpu_resource": "amd.com/gpu", "gpu_shares": "drop",
        "only": "completed", "malformed": "drop",
    }  # fmt: skip
    workload = other(
        plain.workload,
        sha256="ab",
        state="s",
        state_sha256="gh",
        jobs=5,
        gpus=8,
        days=1.5,
        **of_a_log,
    )
    scheduler = other(
        plain.scheduler,
        gap=0.5,
        node_limit=5,
        waste_filter=0.5,
        rules="r",
        rules_sha256="cd",
        chosen="auto",
        promises="weight",
        plan_ahead="soft",
        durations="blind",
    )
    starts = {"first_start_s": 0.5, "migrate_s": 0.4, "resume_s": 0.3}
    engine = other(plain.engine, until_s=9.0, rounds="events", at_stop="keep", **starts)
    failures = Failures("e.csv", "ef", 100.0, 10.0, 3)
    changed = Scenario(
        cluster="1x4:V100+1x4:K80",
        workload=workload,
        scheduler=scheduler,
        engine=engine,
        failures=failures,
    )
    file = tmp_path / "config.toml"
    for scenario in (plain, changed, plain.replaced(at_stop="checkpoint")):
        file.write_text(scenario.to_toml())
        assert read_scenario(file) == scenario
    for name in ("workload", "scheduler", "engine", "failures"):
        before, after = getattr(plain, name), getattr(changed, name)
        same = {f.name for f in fields(before) if getattr(before, f.name) == getattr(after, f.name)}
        assert same <= {"at_stop"}  # checkpoint leaves lost_work_s no other value


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"interval": 30.0}, "interval: is no field of a scenario"),
        ({"interval_s": -1.0}, "interval_s: "),
        ({"gap": 2.0}, "gap: "),
        ({"mtbf_s": 100.0}, "given together"),
        ({"entity_weights": {"a": -1.0}}, "entity_weights: a must be a number"),
        ({"seed": -1}, "seed: "),
        ({"cluster": "8x8:NoGpu"}, "NoGpu"),
    ],
)
def test_impossible_changes_are_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        Scenario().replaced(**change)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("version = 2", "version = 1", r"line 1, version: must be 2, got 1"),
        ("skip_impossible = false", "skip = 1", r"workload\.skip: unknown field"),
        ("gap = 0.0001", "gap = 3.0", r"scheduler\.gap: "),
        ("[failures]", "[failure]", "failure: unknown field"),
    ],
)
def test_malformed_file_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, rule: str
) -> None:
    text = Scenario().to_toml()
    assert old in text
    (tmp_path / "config.toml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=rule):
        read_scenario(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("part", "key", "usual", "other"),
    [("scheduler", "artifact_quirks", "false", "true"), ("engine", "first_boundary", "1", "0")],
)
def test_removed_settings_are_accepted_at_their_former_default(
    tmp_path: Path, part: str, key: str, usual: str, other: str
) -> None:
    path, text = tmp_path / "config.toml", Scenario().to_toml()
    path.write_text(text.replace(f"[{part}]\n", f"[{part}]\n{key} = {usual}\n"))
    assert read_scenario(path) == Scenario()
    path.write_text(text.replace(f"[{part}]\n", f"[{part}]\n{key} = {other}\n"))
    with pytest.raises(InputError, match=rf"{part}\.{key}: .*benchmarks\.published"):
        read_scenario(path)


def test_another_process_gets_the_same_scenario() -> None:
    scenario = Scenario("naive", policy="srtf", seed=2)
    sent = pickle.loads(pickle.dumps(scenario))
    assert sent == scenario
    assert sent.digest == scenario.digest
    assert sent.run().summary.avg_jct_s == scenario.run().summary.avg_jct_s


def test_the_seeds_draw_apart() -> None:
    one = Scenario("base", seed=1).replaced(mtbf_s=9e4, mttr_s=60.0)
    jobs = replace(one, workload=replace(one.workload, seed=2))
    nodes = replace(one, failures=replace(one.failures, seed=2))
    solver = replace(one, scheduler=replace(one.scheduler, seed=2))

    def drawn(scenario: Scenario) -> tuple[str, float, int]:
        made = prepare(scenario)
        first = next(iter(made.node_events())).time_s
        return made.trace.sha256, first, made.policy_options.seed

    base, by_jobs, by_nodes, by_solver = map(drawn, (one, jobs, nodes, solver))
    assert [a == b for a, b in zip(base, by_jobs, strict=True)] == [False, True, True]
    assert [a == b for a, b in zip(base, by_nodes, strict=True)] == [True, False, True]
    assert [a == b for a, b in zip(base, by_solver, strict=True)] == [True, True, False]


def test_a_run_in_memory_and_in_a_folder(tmp_path: Path) -> None:
    memory, folder = SHUFFLED.run(), SHUFFLED.run(out=tmp_path / "run")
    assert memory.folder is None
    assert list(memory.events) == list(folder.events)
    assert (tmp_path / "run" / "summary.json").exists()
    again = read_scenario(tmp_path / "run" / "config.toml")
    assert again.replaced(sha256=None) == SHUFFLED
    assert memory.summary.completed == memory.summary.jobs == 8
    assert memory.summary.wall_s > 0.0


def test_each_seed_has_an_option() -> None:
    """``--seed`` is that of all three, the others of one part alone."""
    line = "--seed 1 --solver-seed 2 --failure-seed 3 --mtbf-s 9e4 --mttr-s 60"
    found = scenario_from(make_parser().parse_args(line.split()))
    seeds = found.workload.seed, found.scheduler.seed, found.failures.seed
    assert seeds == (1, 2, 3)
    plain = scenario_from(make_parser().parse_args(["--seed", "4"]))
    assert (plain.workload.seed, plain.scheduler.seed, plain.failures.seed) == (4, 4, 4)


@pytest.mark.parametrize(
    ("short", "part", "rule"),
    [
        ({"trace": "naive"}, {"workload": Workload(trace="mt")}, "trace: is given twice: 'naive'"),
        ({"seed": 3}, {"workload": Workload(seed=1)}, "given twice: 3, and 1 in mo.Workload"),
        ({"policy": "fifo"}, {"scheduler": Scheduler(policy="srtf")}, "and 'srtf' in mo.Scheduler"),
    ],
)
def test_conflicting_repeated_settings_are_refused(
    short: dict[str, Any], part: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InputError, match=rule):
        Scenario(**short, **part)
    name, value = next(iter(short.items()))
    assert Scenario(**part).replaced(**short) != Scenario(**part)
    same = {key: replace(one, **{name: value}) for key, one in part.items()}
    assert Scenario(**short, **same).to_toml() == Scenario(**short).to_toml()
