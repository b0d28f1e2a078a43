"""Slurm's answers as rounds. The documents are invented after the published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.inputs.slurm.hostlist import expand_hosts
from morph_opt.plan.cli import main as plan
from morph_opt.round.cli import main
from morph_opt.round.decide import decide_round
from morph_opt.round.live.build import Live
from morph_opt.round.live.sources import read_live
from morph_opt.scheduling.policies.registry import PolicyOptions


def number(value: float) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def node(name: str, gres: str, *state: str, **more: Any) -> dict[str, Any]:
    known = {"name": name, "hostname": name, "gres": gres, "state": list(state or ("IDLE",))}
    return known | {"partitions": ["gpu"], "cpus": 64, "alloc_cpus": 0, "real_memory": 1} | more


def job(number_: int, gpus: int, **more: Any) -> dict[str, Any]:
    return {
        "job_id": number_,
        "job_state": ["PENDING"],
        "state_reason": "Priority",
        "account": "ml",
        "partition": "gpu",
        "submit_time": number(1000 + number_),
        "start_time": number(0),
        "time_limit": number(60),
        "node_count": number(1),
        "tres_req_str": f"cpu=8,node=1,billing=8,gres/gpu={gpus}" if gpus else "cpu=8,node=1",
        "nodes": "",
        "gres_detail": [],
        "array_job_id": number(0),
        "array_task_id": {"set": False, "infinite": False, "number": 0},
        "het_job_id": number(0),
    } | more


def running(number_: int, gpus: int, nodes: str, *detail: str, **more: Any) -> dict[str, Any]:
    held = {"job_state": ["RUNNING"], "state_reason": "None", "start_time": number(1500)}
    held |= {"tres_alloc_str": f"cpu=8,gres/gpu={gpus},gres/gpu:a100={gpus}"}
    return job(number_, gpus) | held | {"nodes": nodes, "gres_detail": list(detail)} | more


NODES = [
    node("n1", "gpu:a100:8(S:0-1)", "MIXED"),
    node("n2", "gpu:a100:8(S:0-1)"),
    node("n3", "gpu:v100:4", "IDLE", "DRAIN"),
    node("login", ""),
]
JOBS = [
    running(1, 4, "n1", "gpu:a100:4(IDX:0-2,5)"),
    running(2, 0, "n2", tres_alloc_str="cpu=8"),
    job(10, 8, tres_per_node="gres/gpu:a100:8"),
    job(11, 2, array_job_id=number(11), array_task_string="0-1"),
    job(12, 1, state_reason="Dependency"),
    job(13, 16, tres_per_node="gres:gpu:8", node_count=number(2)),
    job(14, 2, tres_req_str="cpu=1,gres/gpu:v100=2"),
    job(15, 40),
    job(16, 1, job_state=["COMPLETED"]),
]


def write(folder: Path, jobs: Any = None, nodes: Any = None) -> str:
    documents = {
        "jobs": {"jobs": JOBS if jobs is None else jobs, "last_update": number(5000), "meta": {}},
        "nodes": {"nodes": NODES if nodes is None else nodes, "last_update": number(5000)},
    }
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return f"slurm:{folder}/jobs.json,{folder}/nodes.json"


def started(live: Live) -> dict[str, list[str]]:
    rows = decide_round(live.snapshot, PolicyOptions()).to_json()["jobs"]
    return {
        row["job"]: [f"{part['node']}:{part['gpus']}" for part in row["nodes"]]
        for row in rows
        if row["action"] == "start"
    }


def test_jobs_are_sorted_into_running_waiting_and_kept_back(tmp_path: Path) -> None:
    live = read_live(write(tmp_path))
    state = live.snapshot.state
    assert [n.name for n in state.cluster.nodes] == ["n1", "n2", "n3"]
    assert state.unavailable == {2}
    assert state.time_s == 5000.0
    by_name = {known.job.name: known for known in state.jobs}
    assert set(by_name) == {"1", "10", "11_0", "11_1", "13", "14"}
    assert by_name["1"].running is not None
    assert by_name["1"].running.placement.parts == ((0, (0, 1, 2, 5)),)
    assert (by_name["1"].executed_s, by_name["10"].queued_s) == (3500.0, 5000.0 - 1010.0)
    assert by_name["10"].job.iterations == 3600
    assert live.held["12"] == "kept back by Slurm: Dependency"
    assert live.held["15"].startswith("asks for 40 GPUs and the nodes in its partition have 16")


def test_the_optimum_fills_what_is_free(tmp_path: Path) -> None:
    """Free are 4 GPUs of n1 and 8 of n2; n3 is drained.

    One job more counts as much as any other: the two tasks of 2 fit beside job 1, the gang of 8 has
    n2. The gang of 16 needs two whole nodes and waits, as does the one that wants n3's type.
    """
    found = started(read_live(write(tmp_path)))
    assert found["10"] == ["n2:[0, 1, 2, 3, 4, 5, 6, 7]"]
    assert {text.partition(":")[0] for name in ("11_0", "11_1") for text in found[name]} == {"n1"}
    assert set(found) == {"10", "11_0", "11_1"}


def test_partitions_and_older_releases(tmp_path: Path) -> None:
    """Numbers and states were plain before 23.02; a job goes to one of its partitions only."""
    nodes = [
        node("a", "gpu:4") | {"state": "idle", "partitions": "one"},
        node("b", "gpu:4", partitions=["two"]),
    ]
    jobs = [
        job(1, 4) | {"job_state": "PENDING", "submit_time": 7, "partition": "two,three"},
        job(2, 4) | {"job_state": "PENDING", "submit_time": 8, "partition": "two"},
        job(3, 1) | {"partition": "one", "priority": number(0)},
        job(4, 5) | {"partition": "one"},
    ]
    live = read_live(write(tmp_path, jobs, nodes))
    assert list(started(live).values()) == [["b:[0, 1, 2, 3]"]]
    assert live.held["3"] == "kept back by Slurm: priority 0"
    assert "have 4 of one type" in live.held["4"]


def test_a_node_whose_threads_are_all_taken_gets_nothing(tmp_path: Path) -> None:
    nodes = [node("a", "gpu:4", "ALLOCATED", alloc_cpus=64), node("b", "gpu:1g.5gb:7")]
    live = read_live(write(tmp_path, [job(1, 1)], nodes))
    assert started(live) == {}
    assert [n.name for n in live.snapshot.state.cluster.nodes] == ["a"]


def test_the_command_says_who_starts_and_why_one_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path)
    assert main(["--from", source]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "optimal"
    assert set(document["kept_back"]) == {"12", "15"}
    assert main(["--from", source, "--format", "text"]) == 0
    text = capsys.readouterr().out
    assert "12 waits: kept back by Slurm: Dependency" in text
    assert "note: CPUs and memory are not looked at" in text
    for name, words in (("12", "Dependency"), ("13", "13"), ("10", "10")):
        assert main(["--from", source, "--why", name]) == 0
        told = capsys.readouterr().out
        assert words in told
        assert told == told.rstrip("\n") + "\n"
    assert main(["--from", source, "--why", "99"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_why_knows_jobs_that_are_no_part_of_the_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = {"array_job_id": number(80), "array_task_string": "0-99999"}
    jobs = [
        job(1, 4),
        job(77, 0),
        job(78, 4, job_state=["COMPLETED"]),
        job(79, 4, job_state=["REVOKED"]),
        job(80, 0, **many),
        job(90, 0, array_job_id=number(90), array_task_string="3,5"),
        running(91, 0, "n2") | {"tres_alloc_str": "cpu=8"},
    ]
    source = write(tmp_path, jobs)
    for name, reason in (
        ("77", "asks for no GPU"),
        ("78", "has ended (COMPLETED)"),
        ("79", "neither runs nor waits (REVOKED)"),
        ("80", "asks for no GPU"),
        ("90_5", "asks for no GPU"),
        ("91", "asks for no GPU"),
    ):
        assert main(["--from", source, "--why", name]) == 0
        assert capsys.readouterr().out == f"{name} {reason}\n"
    assert main(["--from", source, "--why", "90_4"]) == 2
    assert "the round has no job '90_4'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tasks", "more", "started"),
    [
        ("2-5%3", {}, 2),
        ("2-5%1", {}, 0),
        ("2-5", {"array_max_tasks": number(2)}, 1),
        ("2-5", {"array_max_tasks": number(0)}, 4),
    ],
)
def test_no_more_tasks_of_an_array_start_than_may_run_at_once(
    tmp_path: Path, tasks: str, more: dict[str, Any], started: int
) -> None:
    """One task runs: of the four that wait, at most the limit less one are let go."""
    one = {"array_job_id": number(9)}
    runs = running(12, 1, "n1", "gpu:a100:1(IDX:0)", **one, array_task_id=number(1))
    waits = job(9, 1, **one, array_task_string=tasks, **more)
    found = read_live(write(tmp_path, [runs, waits]))
    assert len(found.snapshot.state.jobs) == 1 + started
    assert list(found.held.values()) == ["kept back by Slurm: JobArrayTaskLimit"] * (4 - started)


def test_tasks_that_are_not_named_are_told(tmp_path: Path) -> None:
    waits = job(9, 1, array_job_id=number(9), array_task_string="1-3,...%2")
    found = read_live(write(tmp_path, [waits]))
    assert "squeue names not all tasks of array 9 (SLURM_BITSTR_LEN): left out" in found.notes


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"jobs": [running(1, 4, "n1", "gpu:a100:4(IDX:0-2)")]}, "names 3 GPUs, the job holds 4"),
        ({"jobs": [running(1, 4, "n1", "gpu:a100:4(IDX:N/A)")]}, "does not name the GPUs"),
        ({"jobs": [running(1, 4, "n[1-2]", "gpu:a100:4(IDX:0-3)")]}, "entry for each of 2 nodes"),
        ({"jobs": [running(1, 1, "n9", "gpu:1(IDX:0)")]}, "'n9' is no node with GPUs"),
        (
            {"jobs": [running(k, 1, "n1", "gpu:a100:1(IDX:3)") for k in (1, 2)]},
            "holds GPU 3 of 'n1', which is another's",
        ),
        ({"jobs": [job(1, 1), job(1, 1)]}, "'1'|twice|unique"),
        ({"jobs": [job(1, 1, submit_time="now")]}, r"jobs\[0\]\.submit_time: must be a number"),
        ({"jobs": [job(1, 1, job_state=[])]}, "job_state: is missing"),
        ({"jobs": [job(1, 1, array_job_id=number(1), array_task_string="x")]}, "list of tasks"),
        ({"nodes": [node("n1", "gpu:a100:many")]}, "must look like gpu:a100:4"),
        ({"nodes": [node("n1", "")], "jobs": []}, "no node has GPUs"),
        ({"nodes": [node("n1", "gpu:4"), node("n1", "gpu:4")]}, "n1"),
    ],
)
def test_contradictory_answers_are_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InputError, match=rule) as caught:
        read_live(write(tmp_path, **change))
    assert "\n" not in str(caught.value)
    assert "json" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("slurm", "must be one of slurm:FILE,FILE"),
        ("lsf:a,b", "must be one of"),
        ("slurm:a,,b", "must be one of"),
        ("slurm:/no/such.json", "no/such.json: cannot be read"),
    ],
)
def test_malformed_sources_are_refused(spec: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        read_live(spec)


def test_missing_and_repeated_documents_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    jobs, nodes = f"{tmp_path}/jobs.json", f"{tmp_path}/nodes.json"
    with pytest.raises(InputError, match="lacks the document of scontrol show nodes"):
        read_live(f"slurm:{jobs}")
    with pytest.raises(InputError, match="is a second document with jobs"):
        read_live(f"slurm:{jobs},{jobs},{nodes}")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="must be what squeue --json or scontrol"):
        read_live(f"slurm:{tmp_path}/other.json,{nodes}")


def test_state_and_source_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main(["--state", "x.json", "--from", "slurm:a,b"]) == 2
    assert capsys.readouterr().err.count("give either --state or --from") == 2


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("gpu[01-03,7],login", ("gpu01", "gpu02", "gpu03", "gpu7", "login")),
        ("r[1-2]n[08-09]", ("r1n08", "r1n09", "r2n08", "r2n09")),
        ("a[1-2]-ib,b", ("a1-ib", "a2-ib", "b")),
    ],
)
def test_lists_of_hosts(text: str, hosts: tuple[str, ...]) -> None:
    assert expand_hosts(text) == hosts


@pytest.mark.parametrize("text", ["n[", "n[]", "n[3-1]", "n[a]", "n1,", ",n1", "n[1-9999999999]"])
def test_malformed_host_lists_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        expand_hosts(text)


def test_a_forecast_from_what_slurm_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: 1 has 100 s of its hour left, 10 an hour from the next round on, 13 needs both."""
    jobs = [
        running(1, 4, "n1", "gpu:a100:4(IDX:0-2,5)"),
        job(10, 8, tres_per_node="gres/gpu:a100:8"),
        job(12, 1, state_reason="Dependency"),
        job(13, 16, tres_per_node="gres:gpu:8", node_count=number(2)),
    ]
    source = write(tmp_path, jobs, NODES[:2])
    words = ["--continuations", "5", "--quiet", "--out", str(tmp_path / "eta")]
    assert plan(["eta", "--from", source, *words]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "1 runs, ends in 2 min",
        "10 starts in 1 min, ends in 61 min",
        "13 starts in 61 min, ends in 121 min",
    ]


# ------------------------------------------------------------------ what other sites answer


@pytest.mark.parametrize("other", ["gpumem:196608M", "gpu_mem:80G", "gpumps:4(CORE:0-3)"])
def test_another_resource_may_begin_with_gpu(tmp_path: Path, other: str) -> None:
    nodes = [node("n1", f"{other},gpu:a100:4", gres_used=f"{other},gpu:a100:2(IDX:0-1)")]
    jobs = [job(1, 2, tres_per_node="gres/gpu:2,gres/gpumem=20G"), job(2, 2)]
    live = read_live(write(tmp_path, jobs, nodes))
    assert [n.type.gpus for n in live.snapshot.state.cluster.nodes] == [4]
    assert list(started(live).values()) == [["n1:[2, 3]"]]


@pytest.mark.parametrize("detail", [(), ("gpu:a100:2",), ("gpu:a100:1(IDX:0)",)])
def test_a_record_without_details_is_what_its_node_has_in_use(
    tmp_path: Path, detail: tuple[str, ...]
) -> None:
    nodes = [node("n1", "gpu:a100:4", gres_used="gpu:a100:2(IDX:0-1)")]
    jobs = [running(1, 2, "n1", *detail), job(2, 2), job(3, 3)]
    live = read_live(write(tmp_path, jobs, nodes))
    assert sum(len(text.split(",")) for some in started(live).values() for text in some) == 2
    assert any("no gres_detail of jobs 1" in note for note in live.notes)


def test_a_record_without_details_needs_a_node_that_states_its_use(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gres_detail: must have an entry .*flags=DETAIL"):
        read_live(write(tmp_path, [running(1, 2, "n1"), job(2, 2)], [node("n1", "gpu:a100:4")]))


def test_a_node_that_states_less_use_than_its_jobs_hold_gets_nothing(tmp_path: Path) -> None:
    nodes = [
        node("n1", "gpu:a100:4", gres_used="gpu:a100:1(IDX:0)"),
        node("n2", "gpu:a100:4", gres_used="gpu:a100:0(IDX:N/A)"),
    ]
    live = read_live(write(tmp_path, [running(1, 2, "n1"), job(2, 2)], nodes))
    assert list(started(live).values()) == [["n2:[0, 1]"]]
    assert any("n1 (a job there does not state its GPUs)" in note for note in live.notes)


def test_a_task_without_details_counts_to_the_limit_of_its_array(tmp_path: Path) -> None:
    nodes = [node("n1", "gpu:a100:4", gres_used="gpu:a100:1(IDX:0)")]
    runs = running(90, 1, "n1", array_job_id=number(91), array_task_id=number(0))
    waits = job(91, 1, array_job_id=number(91), array_task_string="1-3%1")
    live = read_live(write(tmp_path, [runs, waits], nodes))
    assert started(live) == {}
    assert set(live.held.values()) == {"kept back by Slurm: JobArrayTaskLimit"}


@pytest.mark.parametrize(
    ("used", "starts"),
    [
        ("gpu:a100:2(IDX:0-1),gpu:h100:0(IDX:N/A)", {"2": ["n1:[2, 3]"]}),
        ("gpu:a100:0(IDX:N/A),gpu:h100:2(IDX:2-3)", {"1": ["n1:[0, 1]"]}),
        ("gpu:a100:0,gpu:h100:2", {"1": ["n1:[0, 1]"]}),
        ("gpu:a100:1(IDX:0),gpu:h100:0(IDX:N/A)", {"2": ["n1:[2, 3]"]}),
        ("gpu:a100:2(IDX:2-3),gpu:h100:0", {}),  # not in the order of the node's types
        ("gpu:2", {}),  # of which type is not stated
    ],
)
def test_a_node_of_two_types_is_decided_for_the_type_that_is_free(
    tmp_path: Path, used: str, starts: dict[str, list[str]]
) -> None:
    nodes = [node("n1", "gpu:a100:2,gpu:h100:2", gres_used=used)]
    wants = {1: "a100", 2: "h100"}
    jobs = [job(n, 2, tres_req_str=f"gres/gpu:{kind}=2") for n, kind in wants.items()]
    assert started(read_live(write(tmp_path, jobs, nodes))) == starts


def test_what_a_queue_goes_by_is_carried_and_decides_under_the_sites_own_scheduler(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stated = {"qos": "high", "user_name": "ada", "priority": number(70)}
    spec = write(tmp_path, [*JOBS, job(17, 4, **stated)])
    by_name = {known.job.name: known.job for known in read_live(spec).snapshot.state.jobs}
    found = by_name["17"]
    assert (found.partition, found.qos, found.user, found.priority) == ("gpu", "high", "ada", 70.0)
    assert found.time_limit_s == 3_600.0
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=n[1-3]\nPartitionName=gpu Nodes=n[1-3]\n")
    assert main(["--from", spec, "--policy", f"slurm:{conf}", "--why", "13"]) == 0
    assert "13: waits; place " in capsys.readouterr().out
