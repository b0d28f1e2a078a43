"""Jobs of Kueue's are stopped by their Workloads, by the rules of all stops, and given back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from morph_opt.live.execution import release_all
from tests.kueue.sites import ANY, queue, site
from tests.live.kube.fake import FakeKube
from tests.live.kube.kueue import QUEUE, holds, workload_of
from tests.live.kube.rules import owner_of
from tests.live.kube.scene import controller, finish, kubernetes, ours, over, steps
from tests.live.kube.test_kube_rules import manifest
from tests.live.scene import audit, commands

LONG = ("jobs", "ml", "long")
SAYS = "checkpoint seconds=2700"
Key = tuple[str, str, str]


@pytest.fixture
def fake() -> Iterator[FakeKube]:
    found = FakeKube(3, quota=48)
    yield found
    found.close()


@pytest.mark.parametrize("fair", [False, True])
def test_nothing_is_asked_that_kueue_would_refuse(tmp_path: Path, fair: bool) -> None:
    """Queues that lend, borrow and reclaim by Kueue's own cycles, and a controller beside them.

    Whatever it writes to a pod or to a Workload is about one that Kueue has admitted, or about one
    that it stopped itself; and no cycle finds more in use than the cohort has.
    """
    queues = [queue(name, 8, "lab", ANY) for name in ("a", "b", "c")]
    fake = FakeKube(3, site=site(*queues, fair_sharing=fair))
    refused: list[Key] = []
    writes: Counter[str] = Counter()

    def look(key: Key) -> None:
        if key[0] not in ("pods", "workloads"):
            return
        writes[key[0]] += 1
        workload = fake.store[key]
        if key[0] == "pods":
            owner = owner_of(workload)
            of = next(k for k, one in fake.all("jobs") if one["metadata"]["uid"] == owner)
            workload = fake.store[workload_of(of)]
        stopped = "morph-opt.dev/state" in workload["metadata"].get("annotations", {})
        if not (holds(workload, "Admitted") or stopped):
            refused.append(key)

    try:
        fake.before_write = look
        with controller(tmp_path, fake) as one:
            for name, work_s in (("a", 60.0), ("b", 30.0), ("c", 20.0)):
                for number in range(3):
                    pods, label = 1 + number % 2, {QUEUE: name}
                    fake.submit(f"{name}{number}", 8, work_s, SAYS, pods=pods, labels=label)
                    steps(one, fake, 3.0)
            finish(one, fake)
        assert over(fake)
        assert (refused, fake.ignored, fake.twice, fake.touched) == ([], [], [], [])
        assert not any(work.ran_again for work in fake.work.values())
        assert writes["pods"] > 9
    finally:
        fake.close()


def crowded(fake: FakeKube, one: Any, says: str = SAYS) -> Any:
    """A long job of Kueue's on all GPUs, and a short one that waits for them."""
    long = fake.submit("long", 8, 200.0, says, pods=3, labels={QUEUE: "a"})
    steps(one, fake, 20.0)
    assert long.started == 3
    fake.submit("short", 8, 5.0, "seconds=5", labels={QUEUE: "a"})
    return long


def active(fake: FakeKube) -> bool:
    return bool(fake.store[workload_of(LONG)]["spec"]["active"])


def test_a_job_of_kueue_is_stopped_by_its_workload(tmp_path: Path, fake: FakeKube) -> None:
    with controller(tmp_path, fake) as one:
        long = crowded(fake, one)
        finish(one, fake)
    assert over(fake)
    assert long.started == 6
    assert not any(work.ran_again for work in fake.work.values())
    assert (fake.touched, fake.twice, fake.ignored, ours(fake)) == ([], [], [], [])
    text = (tmp_path / "audit.jsonl").read_text()
    assert "kubectl patch workload.kueue.x-k8s.io job-long --namespace ml" in text
    assert "kubectl patch job " not in text


@pytest.mark.parametrize("reports", [False, True])
def test_kueue_job_must_report_remaining_work(
    tmp_path: Path, fake: FakeKube, reports: bool
) -> None:
    with controller(tmp_path, fake, stop_needs="report") as one:
        long = crowded(fake, one, f"{SAYS}{' left=2600 iteration_s=1' if reports else ''}")
        steps(one, fake, 40.0)
    assert bool(long.started > 3) is reports
    assert any(entry.get("not_stopped") for entry in audit(tmp_path)) is not reports


@pytest.mark.parametrize("verb", ["list", "patch"])
def test_job_keeps_running_without_the_rights_to_stop_it(
    tmp_path: Path, fake: FakeKube, verb: str
) -> None:
    fake.rules = [one for one in manifest() if (one[0], one[2]) != (verb, "workloads")]
    with controller(tmp_path, fake) as one:
        long = crowded(fake, one)
        steps(one, fake, 40.0)
    assert long.started == 3
    assert active(fake)
    stops = [r for r in commands(tmp_path, "refused") if r["kind"] == "stop"]
    assert bool(stops) is (verb == "patch")
    assert ("may not be requeued" in (tmp_path / "status.txt").read_text()) is (verb == "list")


def test_stop_that_kueue_ignores_is_withdrawn(tmp_path: Path, fake: FakeKube) -> None:
    with controller(tmp_path, fake) as one:
        long = crowded(fake, one)

        def away(key: Key) -> None:
            if key == workload_of(LONG):
                fake.kueue_away_until_s = 1e18

        fake.before_write = away
        steps(one, fake, 60.0)
    fake.before_write = None
    assert long.started == 3
    assert not active(fake)
    assert fake.twice == []
    release_all(kubernetes(fake), tmp_path, None)
    assert active(fake)
    assert ours(fake) == []
    fake.kueue_away_until_s = 0.0
    fake.advance(300.0)
    assert (long.started, long.ran_again, bool(long.over_s)) == (3, 0, True)


def test_somebody_else_is_first(tmp_path: Path, fake: FakeKube) -> None:
    """Kueue writes the Workload between the look and the stop, or a person deactivates it."""
    with controller(tmp_path, fake) as one:
        long = crowded(fake, one)
        wrote: list[Key] = []

        def person(key: Key) -> None:
            if key == workload_of(LONG) and not wrote:
                wrote.append(key)
                fake.suspend("ml/long")

        fake.before_write = person
        steps(one, fake, 60.0)
        assert wrote
        assert not active(fake)
        assert fake.ignored == []
        assert long.started == 3
        assert "not admitted by Kueue" in (tmp_path / "status.txt").read_text()
        fake.before_write = None
        fake.suspend("ml/long", False)
        finish(one, fake)
    assert over(fake)
    assert fake.ignored == []


def test_a_job_that_ends_as_it_is_stopped_does_not_run_again(
    tmp_path: Path, fake: FakeKube
) -> None:
    with controller(tmp_path, fake) as one:
        long = crowded(fake, one)

        def end(key: Key) -> None:
            if key == workload_of(LONG):
                fake.before_write = None
                fake.kueue_away_until_s = fake.now_s + 2.0
                long.work_s = long.done_s

        fake.before_write = end
        finish(one, fake)
    assert over(fake)
    assert (long.started, long.ran_again) == (3, 0)
    assert holds(fake.store[workload_of(LONG)], "Finished")
