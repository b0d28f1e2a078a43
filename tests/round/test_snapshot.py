"""Snapshots: read back what was written; refuse what contradicts itself, with path and rule."""

from __future__ import annotations

import gzip
import io
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from morph_opt.core.documents import names_of
from morph_opt.core.domain import GpuType, InputError, Leaf, Node, NodeType, Span
from morph_opt.inputs.clusters.spec import LISTED_FIELDS
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.topology.graph import topology_of
from morph_opt.round import reader as fields
from morph_opt.round.reader import parse_snapshot, read_snapshot
from morph_opt.round.snapshot import state_to_json, to_text, write_document
from morph_opt.round.speeds import ROW_FIELDS, PairRow, rows_to_json, table_of
from tests.policies.worlds import random_world
from tests.round.documents import document, spoiled


def parse(value: Any) -> Any:
    return parse_snapshot(json.dumps(value), file="s.json")


def test_every_field_is_read() -> None:
    snapshot = parse(document())
    state = snapshot.state
    assert (state.index, state.time_s, state.interval_s) == (3, 180.0, 60.0)
    assert (state.unavailable, state.failed) == (frozenset({1, 2}), frozenset({2}))
    topology = topology_of(state.cluster)
    assert topology.span([0, 1]) is Span.NVLINK
    assert topology.uplink_gb_per_s == (100.0, math.inf)
    first, second = state.jobs
    assert first.running is not None
    assert first.running.placement.parts == ((0, (0, 1)), (1, (3,)))
    assert (first.job.guaranteed, first.job.tenant, first.job.weight) == (True, "red", 2.0)
    assert (first.restart_left_s, first.recent_starts_s) == (5.0, (60.0,))
    assert (second.running, second.job.tenant, second.job.cpus_per_gpu) == (None, "default", 0)
    assert snapshot.rules is not None
    assert [rule.words.partition(":")[0] for rule in snapshot.rules.rules] == ["quota"]


def test_writing_and_reading_are_inverse() -> None:
    snapshot = parse(document())
    rows = {"rows": rows_to_json(snapshot.speeds)}
    written = state_to_json(snapshot.state, rows, snapshot.rules)
    again = parse_snapshot(to_text(written))
    assert again.state == snapshot.state
    assert again.rules == snapshot.rules
    assert again.speeds.rows == snapshot.speeds.rows
    assert state_to_json(again.state, rows, again.rules) == written


def test_local_ssd_is_read_written_and_summed_over_jobs() -> None:
    value = document()
    value["cluster"]["node_types"][0]["local_ssd_gib"] = 90
    value["jobs"][0]["local_ssd_gib"] = 40.0
    value["jobs"][1] |= {"local_ssd_gib": 50.0, "last_held": None}
    value["jobs"][1]["running"] = {"plan": "dp", "nodes": [{"node": "n0", "gpus": [3]}]}
    snapshot = parse(value)
    rows = {"rows": rows_to_json(snapshot.speeds)}
    written = state_to_json(snapshot.state, rows, snapshot.rules)
    assert [job.get("local_ssd_gib") for job in written["jobs"][:2]] == [40.0, 50.0]
    assert parse_snapshot(to_text(written)).state == snapshot.state
    value["jobs"][1]["local_ssd_gib"] = 60.0
    with pytest.raises(InputError, match="node n0: 100 of 90 GiB of local SSD"):
        parse(value)
    value["jobs"][1] |= {"requested_plan": "est4-d1-A800-80GB", "running": None}
    with pytest.raises(InputError, match=r"workers of .* have no nodes of their own"):
        parse(value)


@pytest.mark.parametrize("seed", range(40))
def test_random_states_survive(seed: int) -> None:
    speeds, state = random_world(np.random.default_rng(seed))
    table = table_of(speeds, state.cluster, speeds.models())
    text = to_text(state_to_json(state, {"rows": rows_to_json(table)}))
    if not {known.job.model for known in state.jobs} <= set(table.models()):
        with pytest.raises(InputError, match="no speeds for"):
            parse_snapshot(text)
        return
    snapshot = parse_snapshot(text)
    assert snapshot.state == state
    for model in table.models():
        for kind in state.cluster.node_types:
            asked = (model, kind, state.cluster.gpus, Span.LEAF)
            assert list(snapshot.speeds.configurations(*asked)) == list(
                speeds.configurations(*asked)
            )


def test_a_table_is_the_model_it_was_taken_from() -> None:
    """Order, times by span and side demands of the built-in model on a topology with all spans."""
    cluster = parse(document()).state.cluster
    model = builtin_model()
    table = table_of(model, cluster, ["gpt2", "llama7"])
    kind = cluster.node_types[0]
    for name in ("gpt2", "llama7"):
        for span in (Span.NVLINK, Span.LEAF, Span.POD):
            for most in (4, 12):
                rows = model.configurations(name, kind, most, span)
                assert list(table.configurations(name, kind, most, span)) == list(rows)
                for row in rows:
                    where = span if row.shape.nodes > 1 else Span.NODE
                    asked = (name, kind, row.shape, row.plan, where)
                    assert table.iteration_s(*asked) == model.iteration_s(*asked)


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of speeds in a file of its own, compressed states, stdin."""
    whole = document()
    speeds = {"schema": "morph-opt/speeds/1", "rows": whole["speeds"]["rows"]}
    whole["speeds"] = {"file": "speeds.json"}
    write_document(tmp_path / "speeds.json", speeds)
    write_document(tmp_path / "s.json.gz", whole, indent=1)
    assert gzip.decompress((tmp_path / "s.json.gz").read_bytes())[:1] == b"{"
    assert read_snapshot(tmp_path / "s.json.gz").state == parse(document()).state
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(whole).encode())))
    assert read_snapshot("-").state == parse(document()).state
    whole["speeds"] = "model"
    for job in whole["jobs"]:
        job["model"] = "gpt2"
    assert parse(whole).speeds is builtin_model()


# ---------------------------------------------------------------- bad input

PART = "jobs.0.running.nodes.0"
BAD: list[tuple[str, Any, str, str]] = [
    ("schema", "morph-opt/round-state/2", "schema", "unknown"),
    ("schema", 1, "schema", "must be text"),
    ("colour", "red", "colour", "unknown field"),
    ("round", -1, "round", "at least 0"),
    ("round", 1.5, "round", "whole number"),
    ("round", True, "round", "whole number"),
    ("time_s", -1.0, "time_s", "at least 0"),
    ("time_s", 10**400, "time_s", "finite"),
    ("interval_s", 0.0, "interval_s", "above 0"),
    ("cluster", [], "cluster", "must be an object, got a list"),
    ("cluster.nodes", [], "cluster.nodes", "no nodes"),
    ("cluster.nodes.1.name", "n0", "cluster.nodes[1].name", "listed twice"),
    ("cluster.nodes.1.type", "x8", "cluster.nodes[1].type", "unknown node type 'x8'; known are x4"),
    ("cluster.nodes.1.status", "broken", "cluster.nodes[1].status", "one of up, drained, failed"),
    ("cluster.nodes.1.rack", "r", "cluster.nodes[1].rack", "unknown field"),
    ("cluster.nodes.0.status", "failed", "jobs[0].running.nodes[0].node", "has failed"),
    (
        "cluster.node_types.0.gpu_type",
        "K80",
        "cluster.node_types[0].gpu_type",
        "unknown GPU type 'K80'",
    ),
    ("cluster.node_types.0.gpus", 0, "cluster.node_types[0].gpus", "at least 1"),
    ("cluster.gpu_types.0.memory_gib", "80", "cluster.gpu_types[0].memory_gib", "a number"),
    ("cluster.leaves.0.name", "z", "cluster.leaves[0].name", "no node is connected to it"),
    ("jobs.1.name", "a", "jobs[1].name", "listed twice"),
    ("jobs.1.name", " ", "jobs[1].name", "non-empty name"),
    ("jobs.1.model", "w", "jobs[1].model", "no speeds for 'w'"),
    ("jobs.1.submission_s", 200.0, "jobs[1].submission_s", "not be later than time_s"),
    ("jobs.1.iterations", 0, "jobs[1].iterations", "at least 1"),
    ("jobs.1.requested_plan", "magic", "jobs[1].requested_plan", "unknown plan"),
    ("jobs.1.requested_plan", "pp2-tp1-dp1", "jobs[1].requested_plan", "needs 2 GPUs"),
    ("jobs.1.guaranteed", 1, "jobs[1].guaranteed", "true or false"),
    ("jobs.1.weight", 0.0, "jobs[1].weight", "above 0"),
    ("jobs.1.iterations_done", 51.0, "jobs[1].iterations_done", "at most iterations"),
    ("jobs.1.restart_left_s", 5.0, "jobs[1].restart_left_s", "queued"),
    ("jobs.1.restart_s", -1.0, "jobs[1].restart_s", "at least 0"),
    ("jobs.1.running", "n0", "jobs[1].running", "must be an object"),
    ("jobs.0.last_start_s", 181.0, "jobs[0].last_start_s", "not be later than time_s"),
    ("jobs.0.recent_starts_s", [600.0], "jobs[0].recent_starts_s", "between 0 and time_s"),
    ("jobs.0.recent_starts_s", ["x"], "jobs[0].recent_starts_s[0]", "a number"),
    ("jobs.0.running.plan", "pp2-tp1-dp1", "jobs[0].running.nodes", "needs 2 GPUs"),
    ("jobs.0.running.nodes", [], "jobs[0].running.nodes", "at least one GPU"),
    (f"{PART}.node", "n9", "jobs[0].running.nodes[0].node", "there is no node 'n9'"),
    (f"{PART}.node", "n1", "jobs[0].running.nodes[1].node", "listed twice"),
    (f"{PART}.gpus", [0, 4], "jobs[0].running.nodes[0].gpus", "has the GPUs 0 to 3, got 4"),
    (f"{PART}.gpus", [0, -1], "jobs[0].running.nodes[0].gpus", "once, from 0 on, got [0, -1]"),
    (f"{PART}.gpus", [0, 0], "jobs[0].running.nodes[0].gpus", "must list each GPU once"),
    (f"{PART}.gpus", [], "jobs[0].running.nodes[0].gpus", "at least one"),
    (f"{PART}.gpus", ["0"], "jobs[0].running.nodes[0].gpus", "GPU indices"),
    ("jobs.0.cpus_per_gpu", 9, "jobs[0].running.nodes[0].gpus", "18 of 16 CPU threads"),
    ("speeds", "table", "speeds", "must be"),
    ("speeds", {}, "speeds", 'either "file" or "rows"'),
    ("speeds", {"file": "none.json"}, "speeds.file", "there is no file"),
    ("speeds.rows.0.node_type", "x8", "speeds.rows[0].node_type", "no node of type"),
    ("speeds.rows.0.shape", "8", "speeds.rows[0].shape", "has 4 GPUs"),
    ("speeds.rows.0.shape", "0", "speeds.rows[0].shape", "must look like"),
    ("speeds.rows.0.plan", "pp2-tp1-dp1", "speeds.rows[0].shape", "needs 2 GPUs"),
    ("speeds.rows.0.iteration_s", 0.0, "speeds.rows[0].iteration_s", "above 0"),
    ("speeds.rows.0.span", "pod", "speeds.rows[0].span", "shapes on several nodes"),
    ("speeds.rows.2.span", "wide", "speeds.rows[2].span", "one of nvlink, leaf, pod"),
    ("speeds.rows.0.iteration_s", 1e308, "speeds.rows[0].iteration_s", "from 1e-09 to 1e+09"),
    ("speeds.rows.0.iteration_s", 1e-300, "speeds.rows[0].iteration_s", "from 1e-09 to 1e+09"),
    ("jobs.0.deadline_s", 0.0, "jobs[0].deadline_s", "SLO in the past: job"),
    ("jobs.0.iterations", 10**30, "jobs[0].iterations", "at most"),
    ("cluster.gpu_types.0.price_per_hour", 0, "cluster.gpu_types[0].price_per_hour", "above 0"),
    ("speeds.rows.0.host_memory_gib", -1.0, "speeds.rows[0].host_memory_gib", "at least 0"),
    ("speeds.rows.0.shape", "2", "speeds.rows", "is listed twice"),
    ("rules", [], "rules", "must be an object"),
    ("rules", None, "rules", "must be an object, got null"),
    ("rules", {"curfew": []}, "rules.curfew", "unknown field"),
    (
        "rules",
        {"maintenance": [{"nodes": ["n9"], "start_s": 0, "end_s": 9}]},
        "rules.maintenance.nodes",
        "'n9' matches nothing",
    ),
    ("rules.quota.0.gpus", -1, "rules.quota[0].gpus", "at least 0"),
]


@pytest.mark.parametrize(
    ("path", "value", "field", "words"), BAD, ids=[f"{b[0]}={str(b[1])[:12]}" for b in BAD]
)
def test_refused_with_path_and_rule(path: str, value: Any, field: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        parse(spoiled(path, value))
    error = raised.value
    assert (error.file, error.field) == ("s.json", field)
    assert words in error.rule
    assert "\n" not in str(error)


def test_a_gpu_held_by_two_jobs() -> None:
    value = document()
    value["jobs"][1]["last_held"] = None
    value["jobs"][1]["running"] = {"plan": "dp", "nodes": [{"node": "n0", "gpus": [1]}]}
    with pytest.raises(InputError, match=r"GPUs \[1\] are held by another job \(a\)") as raised:
        parse(value)
    assert raised.value.field == "jobs[1].running.nodes[0].gpus"


def test_resources_of_a_node_are_summed_over_jobs() -> None:
    """Two jobs fit alone (8 and 10 of 16 threads), not together."""
    value = document()
    value["jobs"][1]["cpus_per_gpu"] = 10
    value["jobs"][1]["last_held"] = None
    value["jobs"][1]["running"] = {"plan": "dp", "nodes": [{"node": "n0", "gpus": [3]}]}
    with pytest.raises(InputError, match="node n0: 18 of 16 CPU threads"):
        parse(value)
    value["jobs"][1]["cpus_per_gpu"] = 8
    parse(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ('{"schema": NaN}', "schema: must be a finite number"),
        ('{"round": 1, "round": 2}', "round: is given twice in one object"),
        ("[]", "must be an object, got a list"),
        ("1" * 5000, "one has thousands of digits"),
    ],
)
def test_damaged_text(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_snapshot(text, file="s.json")


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(b"not gzip")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe")
    for name, words in (
        ("a.json.gz", "is damaged"),
        ("b.json", "UTF-8"),
        ("c.json", "No such"),
    ):
        with pytest.raises(InputError, match=words) as raised:
            read_snapshot(tmp_path / name)
        assert raised.value.file == str(tmp_path / name)


# ---------------------------------------------------------------- the published schema


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "state", schema
    for name, part in schema["$defs"].items():
        if part.get("type") == "object":
            yield name, part


PLACES = {
    "state": ((), fields.STATE),
    "cluster": (("cluster",), LISTED_FIELDS),
    "gpu_type": (("cluster", "gpu_types", 0), names_of(GpuType)),
    "node_type": (("cluster", "node_types", 0), names_of(NodeType)),
    "node": (("cluster", "nodes", 0), (*names_of(Node), "status")),
    "leaf": (("cluster", "leaves", 0), names_of(Leaf)),
    "job": (("jobs", 0), fields.JOB),
    "running": (("jobs", 0, "running"), fields.RUNNING),
    "last_held": (("jobs", 1, "last_held"), fields.LAST_HELD),
    "part": (("jobs", 0, "running", "nodes", 0), ("node", "gpus")),
    "speeds": (("speeds",), ("file", "rows", "pairs")),
    "pair_row": (("speeds", "pairs", 0), names_of(PairRow)),
    "speed_row": (("speeds", "rows", 0), ROW_FIELDS),
}


def test_the_schema_names_the_fields_that_the_reader_knows(project_root: Path) -> None:
    text = (project_root / "docs" / "schema" / "round-state-v1.json").read_text("utf-8")
    schema = json.loads(text)
    assert schema["properties"]["schema"]["const"] == document()["schema"]
    found = dict(objects(schema))
    assert found.keys() == PLACES.keys()
    for name, part in found.items():
        assert part["additionalProperties"] is False
        assert set(part["properties"]) == set(PLACES[name][1]), name


def test_the_schema_requires_what_the_reader_requires(project_root: Path) -> None:
    text = (project_root / "docs" / "schema" / "round-state-v1.json").read_text("utf-8")
    for name, part in objects(json.loads(text)):
        way, known = PLACES[name]
        for field in known:
            value = spoiled("jobs.0.restart_left_s", 0.0)
            row = value["speeds"]["rows"][0]
            value["speeds"]["pairs"] = [
                {
                    "models": [row["model"]] * 2, "plans": [row["plan"]] * 2,
                    "node_type": row["node_type"], "shape": row["shape"], "iteration_s": [1.0, 2.0],
                }
            ]  # fmt: skip
            place: Any = value
            for step in way:
                place = place[step]
            if name == "speeds" or field not in place:
                continue
            del place[field]
            if field in part.get("required", ()):
                with pytest.raises(InputError, match="is missing"):
                    parse(value)
            else:
                parse(value)
