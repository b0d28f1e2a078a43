"""Kueue's objects as rounds. The documents are invented after the published types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from morph_opt.core.domain import InputError
from morph_opt.plan.cli import main as plan
from morph_opt.round.cli import main
from morph_opt.round.decide import decide_round
from morph_opt.round.live import build
from morph_opt.round.live.build import Live
from morph_opt.round.live.sources import read_live, write_snapshot
from morph_opt.round.reader import read_snapshot
from morph_opt.scheduling.policies.registry import PolicyOptions

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "A100", "pool": "train"}
    status = {"allocatable": {"cpu": "64", GPU: str(gpus)}}
    status["conditions"] = [{"type": "Ready", "status": "True"}]  # type: ignore[assignment]
    meta = {"name": name, "labels": labels}
    return {"kind": "Node", "metadata": meta, "spec": spec, "status": status}


def queue(name: str, quota: int, cohort: str = "", **resource: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": "64"}]
    resources.append({"name": GPU, "nominalQuota": quota} | resource)
    flavors = [{"name": "a100", "resources": resources}]
    spec: dict[str, Any] = {"resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}]}
    if cohort:
        spec["cohort"] = cohort
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local(name: str, queue: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "ns"}
    return {"kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": queue}}


def workload(
    name: str, pods: int, gpus: int, queue: str = "lq-a", minute: int = 0, **more: Any
) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {GPU: str(gpus)}}}
    template = {"spec": {"containers": [container], "initContainers": [container]}}
    stamp = f"2026-01-02T03:{minute:02d}:00Z"
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": stamp},
        "spec": {
            "queueName": queue,
            "podSets": [{"name": "main", "count": pods, "template": template}],
        }
        | more,
    }


def admitted(item: dict[str, Any], queue: str, gpus: int) -> dict[str, Any]:
    since = {"status": "True", "lastTransitionTime": "2026-01-02T03:30:00Z"}
    used = [{"name": "main", "resourceUsage": {GPU: str(gpus)}, "count": 1}]
    status = {
        "admission": {"clusterQueue": queue, "podSetAssignments": used},
        "conditions": [{"type": "QuotaReserved"} | since, {"type": "Admitted"} | since],
    }
    return item | {"status": status}


def write(folder: Path, items: list[dict[str, Any]]) -> str:
    half = len(items) // 2
    for name, part in (("one", items[:half]), ("two", items[half:])):
        document = {"apiVersion": "v1", "kind": "List", "items": part}
        (folder / f"{name}.json").write_text(json.dumps(document))
    return f"kueue:{folder}/one.json,{folder}/two.json"


def started(live: Live) -> set[str]:
    rows = decide_round(live.snapshot, PolicyOptions()).to_json()["jobs"]
    return {row["job"] for row in rows if row["action"] == "start"}


QUEUES = [queue("a", 8), queue("b", 8), local("lq-a", "a"), local("lq-b", "b")]


def test_quotas_decide_and_admitted_workloads_stay(tmp_path: Path) -> None:
    """16 GPUs, two queues of 8. One of a's jobs holds 4 of the 8.

    Of a's next two (4 and 8 GPUs) the smaller fits its quota, b's 8 fit theirs: 16 in use.
    """
    items = [
        node("n1", 8),
        node("n2", 8),
        *QUEUES,
        admitted(workload("runs", 1, 4), "a", 4),
        workload("small", 2, 2, minute=1),
        workload("large", 1, 8, minute=2),
        workload("other", 1, 8, "lq-b", minute=3),
        workload("idle", 1, 1, minute=4, active=False),
    ]
    live = read_live(write(tmp_path, items))
    assert started(live) == {"ns/small", "ns/other"}
    assert live.held == {"ns/idle": "it is not active"}
    assert live.snapshot.state.time_s > 1.7e9


def test_a_cohort_lends(tmp_path: Path) -> None:
    """b asks for nothing, so a may have all 16; without the cohort its 8."""
    jobs = [workload("one", 1, 8), workload("two", 1, 8, minute=1)]
    for cohort, limit, count in (("", {}, 1), ("c", {}, 2), ("c", {"borrowingLimit": 4}, 1)):
        queues = [queue("a", 8, cohort, **limit), queue("b", 8, cohort), local("lq-a", "a")]
        live = read_live(write(tmp_path, [node("n1", 8), node("n2", 8), *queues, *jobs]))
        assert len(started(live)) == count


def test_pods_are_not_torn_apart(tmp_path: Path) -> None:
    """Two pods of 5 GPUs need two nodes of 8; three pods do not fit on them."""
    items = [node("n1", 8), node("n2", 8), queue("a", 64)]
    live = read_live(write(tmp_path, [*items, workload("two", 2, 5), workload("three", 3, 5)]))
    assert started(live) == {"ns/two"}
    assert "asks for 15 GPUs" in live.held["ns/three"]


def test_nodes_that_take_nothing_new_and_flavors(tmp_path: Path) -> None:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    own = {"key": GPU, "effect": "NoSchedule"}
    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "a100"}}
    flavor["spec"] = {"nodeLabels": {"pool": "train"}}  # type: ignore[assignment]
    other = node("n4", 8)
    other["metadata"]["labels"]["pool"] = "serve"
    items = [
        node("n1", 8, taints=[taint]),
        node("n2", 8, unschedulable=True),
        node("n3", 8, taints=[own]),
        other,
        flavor,
        queue("a", 64),
    ]
    jobs = [workload("one", 1, 8), workload("two", 1, 8, minute=1)]
    live = read_live(write(tmp_path, [*items, *jobs]))
    assert live.snapshot.state.unavailable == {0, 1}
    assert len(started(live)) == 1


def test_an_overdrawn_quota_is_said(tmp_path: Path) -> None:
    items = [node("n1", 8), queue("a", 2), admitted(workload("runs", 1, 4), "a", 4)]
    live = read_live(write(tmp_path, items))
    note = "cluster queue a holds 4 nvidia.com/gpu of flavor a100, its quota is 2"
    assert note in live.notes
    assert started(live) == set()


def test_the_command_explains_a_quota(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [node("n1", 8), node("n2", 8), *QUEUES, admitted(workload("runs", 1, 8), "a", 8)]
    source = write(tmp_path, [*items, workload("waits", 1, 4, minute=1)])
    assert main(["--from", source, "--why", "ns/waits"]) == 0
    assert "ns/waits" in capsys.readouterr().out


def test_why_knows_workloads_that_are_no_part_of_the_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    over = workload("over", 1, 4)
    over["status"] = {"conditions": [{"type": "Finished", "status": "True"}]}
    broken = workload("broken", 1, 4)
    del broken["spec"]["podSets"]
    items = [node("n1", 8), *QUEUES, workload("waits", 1, 4), workload("cpu", 1, 0), over, broken]
    source = write(tmp_path, items)
    for name, reason in (
        ("cpu", "asks for no GPU\n"),
        ("over", "has finished\n"),
        ("broken", "is left out ("),
    ):
        assert main(["--from", source, "--why", f"ns/{name}"]) == 0
        assert capsys.readouterr().out.startswith(f"ns/{name} {reason}")
    assert main(["--from", source, "--why", "ns/nobody"]) == 2
    assert "the round has no job 'ns/nobody'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ([node("n", 1), workload("w", 1, 1)], "no file has an object of kind ClusterQueue"),
        ([{"kind": "Pod"}, node("n", 1)], "no file has an object of kind Workload"),
        ([node("n", 0), queue("a", 1), workload("w", 1, 1)], "no node has GPUs"),
    ],
)
def test_answers_without_queues_workloads_or_gpus_are_refused(
    tmp_path: Path, items: list[dict[str, Any]], rule: str
) -> None:
    with pytest.raises(InputError, match=rule) as caught:
        read_live(write(tmp_path, items))
    assert "\n" not in str(caught.value)


def test_a_workload_that_names_no_end_is_taken_to_run_for_a_day(tmp_path: Path) -> None:
    source = write(tmp_path, [node("n1", 8), *QUEUES, workload("small", 2, 2)])
    (small,) = read_live(source).snapshot.state.jobs
    assert small.job.iterations == 24 * 3600


def test_a_snapshot_of_it_is_the_same_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read again it gives the same bytes, the same decision and the same forecast."""
    monkeypatch.setattr(build, "NO_LIMIT_S", 3_600)  # a forecast of a day is 1,440 rounds
    items = [
        node("n1", 8),
        node("n2", 8),
        *QUEUES,
        admitted(workload("runs", 1, 4), "a", 4),
        workload("small", 2, 2, minute=1),
        workload("idle", 1, 1, minute=4, active=False),
    ]
    source, file = write(tmp_path, items), tmp_path / "now.json.gz"
    decided = []
    for words in (["--from", source, "--snapshot", str(file)], ["--state", str(file)]):
        assert main(words) == 0
        decided.append(json.loads(capsys.readouterr().out)["jobs"])
    assert decided[0] == decided[1]
    again = tmp_path / "again.json.gz"
    write_snapshot(again, Live(read_snapshot(str(file)), {}, ()))
    assert again.read_bytes() == file.read_bytes()
    said = []
    for words in (["--from", source], ["--state", str(file)]):
        out = ["--continuations", "5", "--quiet", "--out", str(tmp_path / "eta")]
        assert plan(["eta", *words, *out]) == 0
        said.append(capsys.readouterr().out.splitlines()[:2])
    assert said[0] == said[1]
    assert "ns/small starts now, ends in 60" in "".join(said[0])
    assert plan(["eta", "--from", source, "--job", "ns/idle", *out]) == 2
    assert "--job: ns/idle waits: it is not active" in capsys.readouterr().err


def test_a_snapshot_never_replaces_what_it_is_of(tmp_path: Path) -> None:
    source = write(tmp_path, [node("n1", 8), *QUEUES])
    before = (tmp_path / "one.json").read_bytes()
    assert main(["--from", source, "--snapshot", str(tmp_path / "one.json")]) == 2
    assert (tmp_path / "one.json").read_bytes() == before
