"""The policy of a Kueue site: its files, whole rounds and replays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import morph_opt as mo
from morph_opt.core.domain import InputError, Job, Trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.kueue.clusters import KueueSite
from morph_opt.scheduling.policies.kueue import KueuePolicy
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.events.log import RoundDecided
from tests.engine.toys import DP, ToySpeeds, cluster
from tests.kueue.sites import GPU

SPEEDS = ToySpeeds({"m": 1.0}, counts=(1, 2, 4, 8))
EVENTS = ReplayConfig(rounds="events", restart_s=0.0)
NODES = cluster(2, 4)
QUEUE = [
    Job(f"j{n}", "m", 10.0 * n, 40 * (1 + n % 4), (1, 2, 4, 4, 8)[n % 5], DP,
        tenant=("alice", "bob")[n % 2], priority=n % 3)
    for n in range(20)
]  # fmt: skip
EXAMPLE = Path(__file__).parents[2] / "docs" / "schema" / "example-state.json"
RULES = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}


def queue(name: str, gpus: int, **spec: Any) -> dict[str, Any]:
    quota = [{"name": GPU, "nominalQuota": gpus}]
    group = {"coveredResources": [GPU], "flavors": [{"name": "main", "resources": quota}]}
    spec = {"cohort": "lab", "preemption": RULES, "resourceGroups": [group], **spec}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def site(folder: Path, *objects: dict[str, Any], words: str = "") -> str:
    """The policy of queues for alice, bob and carol, and of more objects."""
    flavor = {"kind": "ResourceFlavor", "metadata": {"name": "main"}, "spec": {}}
    listed = [*(objects or (queue("alice", 2), queue("bob", 6), queue("carol", 0))), flavor]
    path = folder / "site.json"
    path.write_text(json.dumps({"kind": "List", "items": listed}), encoding="utf-8")
    return f"kueue:{path}{words}"


def state(*waiting: tuple[str, str, int, int]) -> dict[str, Any]:
    """Two nodes of 4 GPUs; alice runs on one; who waits, by name, tenant, GPUs and priority."""
    given: dict[str, Any] = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    del given["rules"]
    first, other = given["jobs"][0], given["jobs"][1]
    jobs = [
        {**other, "name": name, "tenant": tenant, "requested_gpus": gpus, "priority": priority}
        for name, tenant, gpus, priority in waiting
    ]
    given["jobs"] = [first, *({**one, "submission_s": 700 + at} for at, one in enumerate(jobs))]
    return given


def granted(found: Any) -> dict[str, int]:
    return {one.job: one.placement.gpus for one in found.decision.allocation.assignments}


def test_one_queue_over_all_gpus_without_files() -> None:
    found = mo.decide(state(("b", "bob", 4, 0), ("c", "carol", 1, 5)), policy="kueue")
    assert granted(found) == {"alice-1": 4, "c": 1}
    assert "asks for 4 nvidia.com/gpu, flavor A800-80GB has 3 of 8 free" in found.why("b")
    assert "1 more are needed, as the end of" in found.why("b")


def test_a_borrower_ends_for_the_owner(tmp_path: Path) -> None:
    found = mo.decide(state(("b", "bob", 6, 0)), policy=site(tmp_path))
    assert granted(found) == {"alice-1": 4}
    assert "b: waits; asks for 6 GPUs in a way that cluster" in found.why("b")
    found = mo.decide(state(("b", "bob", 4, 0), ("b2", "bob", 2, 0)), policy=site(tmp_path))
    assert granted(found) == {"b": 4, "b2": 2}
    assert found.why("alice-1") == (
        "alice-1: is preempted for b2 (InCohortReclamation) and queues again"
    )
    assert found.why("b2").endswith("of flavor main, for which alice-1 ended")


def test_before_i_submit_what_stands_in_the_way_is_stated(tmp_path: Path) -> None:
    found = mo.decide(state(("c", "carol", 4, 0)), policy=site(tmp_path, words=",nodes=spread"))
    assert granted(found) == {"alice-1": 4, "c": 4}  # by borrowing
    fixed = queue("carol", 1, preemption={})
    fixed["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = 1
    found = mo.decide(state(("c", "carol", 4, 0)), policy=site(tmp_path, queue("alice", 8), fixed))
    assert found.why("c") == (
        "c: waits; place 1 in cluster queue carol; asks for 4 nvidia.com/gpu, flavor main never "
        "has more than 2"
    )


def test_strict_queues_name_their_head(tmp_path: Path) -> None:
    strict = site(tmp_path, queue("alice", 8), queue("bob", 0, queueingStrategy="StrictFIFO"))
    found = mo.decide(state(("b1", "bob", 8, 0), ("b2", "bob", 1, 0)), policy=strict)
    assert granted(found) == {"alice-1": 4}
    assert found.why("b2") == "b2: waits; place 2 of its StrictFIFO queue bob, whose head is b1"


def test_an_admitted_job_waits_for_nodes_and_is_evicted_in_time(tmp_path: Path) -> None:
    ready = {"kind": "Configuration", "waitForPodsReady": {"timeout": "5m"}}
    policy = site(tmp_path, queue("alice", 9), queue("bob", 9), ready)
    found = mo.decide(state(("b", "bob", 8, 0)), policy=policy)
    assert "is admitted with 8 nvidia.com/gpu of flavor main and waits for 2 nodes" in found.why(
        "b"
    )
    assert found.why("b").endswith("1 have them")


def test_what_is_not_modelled_is_named_with_its_objects(tmp_path: Path) -> None:
    given = site(
        tmp_path,
        queue("alice", 8, admissionChecks=["c"]),
        queue("bob", 1, admissionChecks=["c"]),
        {
            "kind": "Configuration",
            "manageJobsWithoutQueueName": True,
            "featureGates": {"PartialAdmission": False, "ElasticJobs": True},
        },
        {"kind": "AdmissionCheck", "metadata": {"name": "c"}},
    )
    found = KueueSite.read(given.removeprefix("kueue:"))
    assert [*found.unmodelled()] == [
        "ClusterQueue admissionChecks (alice, bob)",
        "Configuration manageJobsWithoutQueueName",
        "objects of kind AdmissionCheck",
        "feature gate ElasticJobs",
    ]
    assert not found.settings().partial
    (note,) = KueuePolicy(SPEEDS, found).notes()
    assert note.startswith("kueue: not modelled, and left out: ClusterQueue admissionChecks")


@pytest.mark.parametrize(("text", "complaint"), [
    ("nowhere.json", "nowhere.json"),
    ("placement=heap", "knows placement=gang or placement=pods or nodes=packed"),
])  # fmt: skip
def test_bad_files_and_words_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        KueueSite.read(text)


def test_a_job_of_no_queue_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tenant 'carl' is neither .*did you mean 'carol'"):
        mo.decide(state(("x", "carl", 1, 0)), policy=site(tmp_path))


@pytest.mark.parametrize("words", ["", ",placement=pods"])
def test_an_interrupted_run_is_finished_as_if_it_had_not_been(tmp_path: Path, words: str) -> None:
    """Two queues preempt each other's borrowers; the first half is observed, not decided."""
    files = site(tmp_path, queue("alice", 4), queue("bob", 4), words=words)
    trace, whole, part = Trace.of("toy", QUEUE), tmp_path / "whole", tmp_path / "part"

    def policy() -> KueuePolicy:
        return KueuePolicy(SPEEDS, KueueSite.read(files.removeprefix("kueue:")))

    replay(trace, NODES, policy(), SPEEDS, EVENTS, out=whole)

    class Stop(Exception):
        pass

    def stop(event: RoundDecided, _: object) -> None:
        if event.index == 15:
            raise Stop

    with pytest.raises(Stop):
        replay(trace, NODES, policy(), SPEEDS, EVENTS, out=part, progress=stop)
    replay(trace, NODES, policy(), SPEEDS, EVENTS, out=part, resume=True)
    events = (whole / "events.jsonl").read_bytes()
    assert (part / "events.jsonl").read_bytes() == events
    assert events.count(b"preempt") > 0
