"""What Slurm really answers: 22.05 without accounting of GPUs, jobs that are not shown, requeues.

The documents are small and invented; their structure is that of 22.05.8 (plain numbers, the flags
of a node apart in ``state_flags``, no ``last_update``) and of 24.11.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morph_opt.core.domain import InputError
from morph_opt.round.decide import decide_round
from morph_opt.round.live.build import Live
from morph_opt.round.live.sources import read_live
from morph_opt.scheduling.policies.registry import PolicyOptions
from tests.round.live import test_slurm as newer


def node(name: str, used: str = "gpu:a800:0(IDX:N/A)", *flags: str, **more: Any) -> dict[str, Any]:
    known = {"name": name, "gres": "gpu:a800:8", "gres_used": used, "state": "idle", "cpus": 64}
    known |= {"state_flags": list(flags), "partitions": ["gpu"], "alloc_cpus": 0, "features": ""}
    return known | {"active_features": ""} | more


def waits(job: int, **more: Any) -> dict[str, Any]:
    """A job of a cluster that accounts no GPUs: no list has ``gres/gpu``."""
    return {
        "job_id": job,
        "job_state": "PENDING",
        "state_reason": "Resources",
        "account": "ml",
        "partition": "gpu",
        "submit_time": 1000 + job,
        "eligible_time": 1000 + job,
        "start_time": 0,
        "time_limit": 60,
        "node_count": 1,
        "tasks": 1,
        "priority": 7,
        "tres_req_str": "cpu=1,mem=5G,node=1,billing=1",
        "tres_alloc_str": "",
        "tres_per_job": "",
        "tres_per_node": "",
        "tres_per_task": "",
        "tres_per_socket": "",
        "sockets_per_node": None,
        "gres_detail": [],
        "nodes": "",
        "required_nodes": "",
        "excluded_nodes": "",
        "features": "",
        "shared": None,
        "het_job_id": 0,
        "array_job_id": 0,
        "array_task_id": None,
        "array_task_string": "",
        "restart_cnt": 0,
        "resv_name": "",
    } | more


def asks(gpus: int) -> dict[str, Any]:
    """The request of a cluster that accounts GPUs."""
    return {"tres_per_job": f"gres:gpu:{gpus}", "tres_req_str": f"cpu=1,node=1,gres/gpu={gpus}"}


def runs(job: int, nodes: str, *detail: str, **more: Any) -> dict[str, Any]:
    held = {"job_state": "RUNNING", "state_reason": "None", "start_time": 1500}
    held |= {"nodes": nodes, "gres_detail": list(detail), "tres_alloc_str": "cpu=1,node=1"}
    return waits(job) | held | more


def live(folder: Path, jobs: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> Live:
    (folder / "jobs.json").write_text(json.dumps({"jobs": jobs, "errors": []}))
    (folder / "nodes.json").write_text(json.dumps({"nodes": nodes, "errors": []}))
    return read_live(f"slurm:{folder}/jobs.json,{folder}/nodes.json")


def started(found: Live) -> dict[str, list[str]]:
    """Nodes and GPUs of the jobs that the round starts."""
    rows = decide_round(found.snapshot, PolicyOptions()).to_json()["jobs"]
    return {
        row["job"]: [f"{part['node']}:{part['gpus']}" for part in row["nodes"]]
        for row in rows
        if row["action"] == "start"
    }


@pytest.mark.parametrize("flag", ["DRAIN", "MAINTENANCE", "RESERVED", "FAIL", "NOT_RESPONDING"])
def test_flags_that_22_05_has_apart_close_a_node(tmp_path: Path, flag: str) -> None:
    """L2: the state alone is idle."""
    found = live(tmp_path, [waits(1, tres_per_node="gres:gpu:1")], [node("n1", "", flag)])
    assert started(found) == {}
    assert f"nothing is started on n1 ({flag.lower()})" in found.notes
    planned = live(
        tmp_path, [waits(1, tres_per_node="gres:gpu:1")], [node("n1", "gpu:0", "PLANNED")]
    )
    assert set(started(planned)) == {"1"}


@pytest.mark.parametrize(
    ("asks", "gpus"),
    [
        ({"tres_per_job": "gres:gpu:12"}, 12),
        ({"tres_per_job": "gres/gpu:a800:12"}, 12),
        ({"tres_per_task": "gres:gpu:2", "tasks": 4}, 8),
        ({"tres_per_socket": "gres:gpu:1", "sockets_per_node": 2}, 2),
        ({"tres_per_node": "gres:gpu"}, 1),
        # What ``node_count`` says of a job that waits is a guess, ``node=`` is what it asked for.
        ({"tres_per_node": "gres:gpu:a800:2", "node_count": 4, "tres_req_str": "node=2"}, 4),
    ],
)
def test_jobs_count_without_accounting_of_gpus(
    tmp_path: Path, asks: dict[str, Any], gpus: int
) -> None:
    """L3: whoever asks by job, task or socket neither vanishes nor loses what it holds."""
    found = live(tmp_path, [waits(1, **asks)], [node("n1"), node("n2")])
    assert [known.job.requested_gpus for known in found.snapshot.state.jobs] == [gpus]


def test_a_running_job_has_the_gpus_of_its_detail(tmp_path: Path) -> None:
    """L3: 12 GPUs on two nodes are 8 and 4; the third node has another 4 free."""
    jobs = [
        runs(1, "n[1-2]", "gpu:a800:8(IDX:0-7)", "gpu:a800:4(IDX:0-3)", tres_per_job="gres:gpu:12"),
        runs(2, "n2", tres_per_job=""),
        waits(3, tres_per_job="gres:gpu:4"),
        waits(4, tres_per_job="gres:gpu:1"),
    ]
    found = live(tmp_path, jobs, [node("n1"), node("n2")])
    by_name = {known.job.name: known for known in found.snapshot.state.jobs}
    assert by_name["1"].job.requested_gpus == 12
    assert "2" not in by_name
    assert len(started(found)) == 1


def test_gpus_in_use_by_jobs_that_are_not_shown_are_left_alone(tmp_path: Path) -> None:
    """L4: PrivateData hides a job that holds GPUs 2 to 7; GPU 0 is job 1's, so GPU 1 is free."""
    jobs = [
        runs(1, "n1", "gpu:a800:1(IDX:0)", tres_per_job="gres:gpu:1"),
        waits(2, tres_per_job="gres:gpu:1"),
        waits(3, tres_per_job="gres:gpu:2"),
    ]
    found = live(tmp_path, jobs, [node("n1", "gpu:a800:7(IDX:0,2-7)")])
    assert started(found) == {"2": ["n1:[1]"]}
    note = "GPUs in use by no job that squeue shows are left alone: 6 on n1"
    assert note in found.notes
    assert "n1" in live(tmp_path, jobs, [node("n1", None)]).notes[-1]


def test_gpus_that_are_counted_and_not_named_are_in_use(tmp_path: Path) -> None:
    found = live(tmp_path, [waits(1, **asks(3))], [node("n1", "gpu:a800:6(IDX:N/A)")])
    assert started(found) == {}
    assert live(tmp_path, [waits(1, **asks(2))], [node("n1", "gpu:a800:6(IDX:N/A)")]).held == {}


@pytest.mark.parametrize("state", ["COMPLETED", "CANCELLED", "FAILED"])
def test_a_record_at_its_end_that_names_gpus_still_holds_them(tmp_path: Path, state: str) -> None:
    ends = runs(1, "n1", "gpu:a800:8(IDX:0-7)", job_state=state)
    found = live(tmp_path, [ends, waits(2, **asks(1))], [node("n1")])
    assert started(found) == {}


def test_nodes_of_a_partly_released_job_take_no_start(tmp_path: Path) -> None:
    """A job that is about to end on n2 alone, with the details of both of its nodes."""
    ends = runs(1, "n2", "gpu:8(IDX:0-7)", "gpu:8(IDX:0-7)", job_state="COMPLETING")
    jobs = [ends, waits(2, **asks(8)), waits(3, **asks(8))]
    found = started(live(tmp_path, jobs, [node("n1"), node("n2")]))
    assert list(found.values()) == [["n1:[0, 1, 2, 3, 4, 5, 6, 7]"]]


def test_shares_of_gpus_in_use_close_a_node(tmp_path: Path) -> None:
    used = "gpu:a800:0(IDX:N/A),shard:a800:3(1/4,2/4)"
    found = live(tmp_path, [waits(1, **asks(1))], [node("n1", used)])
    assert started(found) == {}


@pytest.mark.parametrize(
    ("asks", "where"),
    [
        ({"required_nodes": "n2"}, {"n2"}),
        ({"excluded_nodes": "n[1-2]"}, {"n3"}),
        ({"features": "ib"}, {"n2"}),
        ({"features": "ib&new"}, set()),
        ({"features": "ib|new"}, {"n2", "n3"}),
        ({"features": "[ib*1&new*1]"}, None),
        ({"required_nodes": "n1", "tres_req_str": "node=2", "tres_per_job": "gres:gpu:9"}, None),
        ({"resv_name": "course"}, None),
        ({"eligible_time": 9000}, None),
    ],
)
def test_nodes_and_features_that_a_job_names(
    tmp_path: Path, asks: dict[str, Any], where: set[str] | None
) -> None:
    """L5 and L12: it goes there, or is kept back with the reason (None)."""
    nodes = [node("n1"), node("n2", active_features="ib"), node("n3", active_features="new")]
    job = waits(1, **{"tres_per_job": "gres:gpu:1"} | asks)
    found = live(tmp_path, [job], nodes)
    if not where:
        assert started(found) == {}
        assert list(found.held) == ["1"]
        return
    parts = [part.partition(":")[0] for part in started(found)["1"]]
    assert set(parts) <= where


@pytest.mark.parametrize("asks", [{"tres_req_str": "node=2"}, {"required_nodes": "n[1-2]"}])
def test_a_job_runs_on_as_many_nodes_as_it_insists_on(tmp_path: Path, asks: dict[str, Any]) -> None:
    job = waits(1, tres_per_job="gres:gpu:4", **asks)
    assert len(started(live(tmp_path, [job], [node("n1"), node("n2")]))["1"]) == 2


def test_components_of_a_heterogeneous_job_do_not_start_apart(tmp_path: Path) -> None:
    """L6: Slurm starts both or none; there is room for one of them."""
    het = {"het_job_id": 5, "het_job_id_set": "5-6"}
    jobs = [
        waits(5, tres_per_job="gres:gpu:4", het_job_offset=0, **het),
        waits(6, tres_per_job="gres:gpu:8", het_job_offset=1, **het),
    ]
    found = live(tmp_path, jobs, [node("n1")])
    assert started(found) == {}
    assert set(found.held) == {"5+0", "5+1"}
    assert "heterogeneous job 5" in found.held["5+0"]


@pytest.mark.parametrize("shared", ["none", ["none"]])
def test_exclusive_jobs_take_whole_and_empty_nodes(tmp_path: Path, shared: object) -> None:
    """L7: two nodes with two GPUs each are 16 GPUs; n3 has a job without GPUs."""
    job = waits(1, tres_per_node="gres:gpu:2", tres_req_str="node=2", shared=shared)
    other = waits(2, tres_per_job="gres:gpu:1")
    nodes = [node("n1"), node("n2"), node("n3")]
    found = live(tmp_path, [job, runs(9, "n3")], nodes)
    assert {part[:2] for part in started(found)["1"]} == {"n1", "n2"}
    rows = decide_round(found.snapshot, PolicyOptions()).to_json()["jobs"]
    assert [row["gpus"] for row in rows] == [16]
    found = live(tmp_path, [job, other, runs(8, "n2"), runs(9, "n3")], nodes)
    assert set(started(found)) == {"2"}
    assert "whole" in found.held["1"] or "empty" in found.held["1"]
    alone = runs(8, "n1", "gpu:a800:2(IDX:0-1)", shared=shared)
    assert started(live(tmp_path, [alone, other], nodes[:1])) == {}
    assert list(
        live(tmp_path, [waits(1, tres_per_job="gres:gpu:1", shared=["user"])], nodes).held
    ) == ["1"]


def test_a_requeue_is_named_where_its_submission_is_not_known(tmp_path: Path) -> None:
    """L8: squeue has no submission but that of the last requeue."""
    found = live(tmp_path, [waits(1, tres_per_job="gres:gpu:1", restart_cnt=2)], [node("n1")])
    assert "1 records are of jobs that ran before" in " ".join(found.notes)


_USED = st.sets(st.integers(0, 7))


@settings(max_examples=25, deadline=None)
@given(
    nodes=st.lists(st.tuples(_USED, _USED, _USED, st.booleans()), min_size=1, max_size=3),
    asked=st.lists(st.integers(1, 12), max_size=6),
)
def test_no_gpu_is_given_away_that_any_answer_names(
    tmp_path_factory: pytest.TempPathFactory,
    nodes: list[tuple[set[int], set[int], set[int], bool]],
    asked: list[int],
) -> None:
    """Whatever ``gres_used`` or the ``gres_detail`` of any record names stays as it is."""
    records, taken, jobs = [], {}, []
    for at, (one, other, used, named) in enumerate(nodes):
        name = f"n{at}"
        ended = other - one
        for number, (gpus, state) in enumerate(((one, "RUNNING"), (ended, "CANCELLED"))):
            if gpus:
                detail = f"gpu:a800:{len(gpus)}(IDX:{','.join(map(str, sorted(gpus)))})"
                jobs.append(runs(10 * at + number + 1, name, detail, job_state=state))
        known = ",".join(map(str, sorted(used))) if named and used else "N/A"
        records.append(node(name, f"gpu:a800:{len(used)}(IDX:{known})"))
        taken[name] = one | ended | (used if named else set()), len(used)
    jobs += [waits(100 + at, **asks(gpus)) for at, gpus in enumerate(asked)]
    found = live(tmp_path_factory.mktemp("slurm"), jobs, records)
    given: dict[str, set[int]] = {name: set() for name in taken}
    for parts in started(found).values():
        for part in parts:
            name, _, gpus = part.partition(":")
            given[name] |= set(json.loads(gpus))
    for name, (some, count) in taken.items():
        assert not given[name] & some
        assert len(given[name]) <= 8 - max(count, len(some))


def test_an_answer_with_an_error_is_refused(tmp_path: Path) -> None:
    """Its lists are empty, which is not to say that nothing runs."""
    live(tmp_path, [], [node("n1")])
    failed = {"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}
    (tmp_path / "jobs.json").write_text(json.dumps(failed))
    with pytest.raises(InputError, match=r"jobs.json, errors: .*contact slurm controller"):
        read_live(f"slurm:{tmp_path}/jobs.json,{tmp_path}/nodes.json")


def test_newer_releases_are_read_alike(tmp_path: Path) -> None:
    """24.11 has objects for numbers and lists for states; ``gres_used`` is there as well."""
    nodes = [newer.node("n1", "gpu:a100:8", gres_used="gpu:a100:7(IDX:1-7)")]
    jobs = [newer.job(10, 1), newer.job(11, 1)]
    found = read_live(newer.write(tmp_path, jobs, nodes))
    assert list(newer.started(found).values()) == [["n1:[0]"]]


def test_a_job_on_slices_of_gpus_holds_none(tmp_path: Path) -> None:
    """The untyped total of accounting has the slices in it."""
    tres = "cpu=1,node=1,gres/gpu=1,gres/gpu:1g.5gb=1"
    sliced = runs(1, "n1", "gpu:1g.5gb:1(IDX:0)", tres_alloc_str=tres, tres_req_str=tres)
    found = live(tmp_path, [sliced, waits(2, **asks(8))], [node("n1")])
    assert list(started(found)) == ["2"]
    assert len(found.snapshot.state.jobs) == 1
