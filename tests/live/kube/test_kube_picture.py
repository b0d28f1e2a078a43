"""What is read of Kubernetes: who takes part, what is held, what pods ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.inputs.kueue.kube import quantity_of, requests_of
from morph_opt.live.history import write_run
from morph_opt.simulation.runs.read import read_run
from tests.live.kube.fake import FakeKube
from tests.live.kube.rules import GATE, GPU, gates_of
from tests.live.kube.scene import controller, finish, kubernetes, steps


@pytest.fixture
def fake() -> Iterator[FakeKube]:
    found = FakeKube(2)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"gates": ()}, "its user did not mark it"),
        ({"namespace": "other"}, "another partition"),
        ({"gates": (GATE, "site/quota")}, "another gate"),
        ({"suspend": True}, "suspended by a person"),
        ({"affinity": {"nodeAffinity": {}}}, "affinity of its own"),
        ({"topologySpreadConstraints": [{}]}, "topologySpreadConstraints of its own"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims of its own"),
        ({"schedulerName": "volcano"}, "another scheduler"),
        ({"nodeSelector": {"kubernetes.io/hostname": "host-n1"}}, "a node of its own"),
        ({"gpus": 0}, "asks for no GPUs"),
        ({"gpus": 16}, "asks for 16 GPUs"),
    ],
)
def test_unsuitable_pods_are_left_alone(
    tmp_path: Path, fake: FakeKube, more: dict[str, Any], why: str
) -> None:
    for node in ("n1", "n2"):
        fake.cordon(node)  # nobody else starts it either
    fake.submit("odd", **{"gpus": 2, "work_s": 5.0, "work": {"foreign": True}, **more})
    fake.advance(1.0)
    for node in ("n1", "n2"):
        fake.cordon(node, False)
    with controller(tmp_path, fake) as one:
        one.step()
    assert fake.touched == []
    status = (tmp_path / "status.txt").read_text()
    assert [line for line in status.splitlines() if line.startswith("  left alone")] == [
        line for line in status.splitlines() if why in line
    ]
    assert why in status


def test_jobs_of_other_controllers_are_started_and_not_stopped(
    tmp_path: Path, fake: FakeKube
) -> None:
    fake.submit("a", 8, 900.0, "checkpoint seconds=900", pods=2)
    fake.change(("jobs", "ml", "a"), lambda job: job["spec"].update(managedBy="example.com/b"))
    with controller(tmp_path, fake) as one:
        steps(one, fake, 20.0)
        fake.submit("b", 8, 5.0, "seconds=5")
        steps(one, fake, 70.0)
    assert fake.work["ml/a"].started == 2
    assert "may not be requeued" in (tmp_path / "status.txt").read_text()


@pytest.mark.parametrize("more", [{"completions": 3}, {"parallelism": 0}])
def test_job_with_more_completions_than_pods_is_left_alone(
    tmp_path: Path, fake: FakeKube, more: dict[str, int]
) -> None:
    fake.submit("a", 1, 5.0, pods=1, work={"foreign": True})
    fake.change(("jobs", "ml", "a"), lambda job: job["spec"].update(more))
    fake.advance(1.0)
    with controller(tmp_path, fake) as one:
        one.step()
    assert "more completions than pods at once" in (tmp_path / "status.txt").read_text()
    assert fake.touched == []


def test_unowned_pods_keep_their_resources(tmp_path: Path, fake: FakeKube) -> None:
    fake.submit("a", 8, 900.0, None, gates=(), work={"foreign": True})
    fake.submit("b", 8, 900.0, work={"foreign": True})
    fake.advance(1.0)
    for name in ("a", "b"):
        (key, _), *_ = fake.pods_of(f"ml/{name}")
        fake.change(key, lambda pod: pod["metadata"].update(ownerReferences=[]))
        del fake.store["jobs", "ml", name], fake.work[f"ml/{name}"]
    for i in range(2):
        fake.submit(f"c{i}", 8, 20.0, "seconds=20")
    with controller(tmp_path, fake) as one:
        steps(one, fake, 10.0)
        assert sum(work.started for work in fake.work.values()) == 1
        assert "no Job has it" in (tmp_path / "status.txt").read_text()
        finish(one, fake)
    assert fake.touched == []


def test_a_pod_that_is_lost_is_replaced(tmp_path: Path, fake: FakeKube) -> None:
    fake.submit("gang", 4, 60.0, "seconds=60", pods=2)
    with controller(tmp_path, fake) as one:
        steps(one, fake, 20.0)
        (key, _), *_ = fake.pods_of("ml/gang")
        fake._delete(key)
        steps(one, fake, 20.0)
        assert fake.work["ml/gang"].started == 3
        assert not any(gates_of(pod["spec"]) for _, pod in fake.pods_of("ml/gang"))
        finish(one, fake)


def test_recreated_job_is_a_new_one(tmp_path: Path, fake: FakeKube) -> None:
    with controller(tmp_path, fake) as one:
        for _ in range(2):
            fake.submit("same", 8, 10.0, "seconds=10")
            finish(one, fake)
            steps(one, fake, 5.0)
            fake.delete("ml/same")
            steps(one, fake, 10.0)
        assert one.memory.ran_again == 0
        assert len(one.memory.jobs) == 2
    write_run(tmp_path / "audit.jsonl", tmp_path / "run")
    assert read_run(tmp_path / "run").summary.completed == 2


def test_job_of_the_how_to_page_is_scheduled(tmp_path: Path, fake: FakeKube) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "live-kubernetes.md").read_text("utf-8")
    job = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    template = job["spec"]["template"]["spec"]
    work = fake.submit("train", 8, 20.0, job["metadata"]["annotations"]["morph-opt.dev/job"])
    fake.store["jobs", "ml", "train"]["spec"] |= job["spec"] | {"backoffLimit": 6, "suspend": False}
    assert template["containers"][0]["resources"]["limits"] == {GPU: "8"}
    with controller(tmp_path, fake) as one:
        finish(one, fake)
    assert work.over_s
    assert work.started == 2


def test_a_cluster_without_gpus_is_one_line(tmp_path: Path, fake: FakeKube) -> None:
    for node in ("n1", "n2"):
        fake.remove(node)
    with pytest.raises(InputError, match="nodes: no node has GPUs"):
        kubernetes(fake).observe({})


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("8", 8.0),
        (8, 8.0),
        ("500m", 0.5),
        ("1.5Gi", 1.5 * 1024**3),
        ("1e3", 1e3),
        ("2E", 2e18),
        ("3k", 3e3),
        ("7u", 7e-6),
        ("1Ki", 1024.0),
    ],
)
def test_quantities(text: Any, amount: float) -> None:
    assert quantity_of(Fields({"cpu": text}, "", None, None), "cpu") == pytest.approx(amount)


@pytest.mark.parametrize("text", ["", "x", "1.2.3", ".", "1KiB", "-1", "1 Gi"])
def test_malformed_quantities_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="cpu: must be a quantity"):
        quantity_of(Fields({"cpu": text}, "", None, None), "cpu")


def test_pod_requests_add_containers_init_containers_and_overhead() -> None:
    def one(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"limits": {"cpu": "9", GPU: "1"}, "requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [one("1"), one("2"), {}],
        "initContainers": [one("8"), one("7"), one("3", restartPolicy="Always")],
        "overhead": {"cpu": "250m", "memory": "1Ki"},
    }
    asked = requests_of(Fields(spec, "", None, None))
    assert asked == {"pods": 1.0, "cpu": 8.25, GPU: 3.0, "memory": 1024.0}
