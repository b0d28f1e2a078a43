"""Kueue behind a pretended API server: one queue with a quota of GPUs, and the rules that matter.

What it states of the real one, and where that is written:

* A Job with a queue's name is suspended as it is made, and has a Workload whose controller it is
  (kueue.sigs.k8s.io/docs/concepts/workload). Kueue lets it go on when the Workload is admitted, and
  suspends it wherever it is not (``pkg/controller/jobframework/reconciler.go``, "handle job").
* ``spec.active`` (same page, "Active"; kubernetes-sigs/kueue#1252): false evicts what runs and
  keeps it from the queue: ``Evicted`` with reason ``Deactivated``, then the Job is suspended; when
  none of its pods is active the quota is given back and ``Requeued`` is false. True again:
  ``Requeued`` is true, and it is admitted in its turn. True before Kueue saw the false: nothing
  happens (``pkg/controller/core/workload_controller.go``, ``Reconcile``).
* A Job that is over has a Workload that is ``Finished``, whatever was asked for
  (the reconciler looks at that before it looks at evictions).
* While it holds quota, nothing else of a Workload's spec changes that matters here: 422.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from morph_opt.scheduling.kueue.cycle import cycle
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.site import Site, Snapshot
from morph_opt.scheduling.kueue.workloads import Held, Placed, PodSet, Workload, exact
from tests.live.kube.rules import GPU, Key, Table, alive, needs_of, owner_of

if TYPE_CHECKING:
    from tests.live.kube.fake import FakeKube

QUEUE = "kueue.x-k8s.io/queue-name"
DEACTIVATED = "Deactivated"


def queued(job: Table) -> bool:
    """Whether a Job is Kueue's."""
    return QUEUE in job["metadata"].get("labels", {})


def workload_of(job: Key) -> Key:
    """The Workload of a Job."""
    return "workloads", job[1], f"job-{job[2]}"


def holds(workload: Table, kind: str) -> bool | None:
    """Whether a condition holds; None where it was never said."""
    found = (one for one in workload["status"].get("conditions", ()) if one["type"] == kind)
    return next((one["status"] == "True" for one in found), None)


def reconcile(fake: FakeKube) -> None:
    """One step of its controllers: at most one change of each Workload, and of each Job."""
    for key, job in fake.all("jobs"):
        if queued(job) and workload_of(key) not in fake.store:
            owner = {"kind": "Job", "name": key[2], "uid": job["metadata"]["uid"]}
            fake.put(workload_of(key), {
                "metadata": {"ownerReferences": [owner | {"controller": True}]},
                "spec": {"active": True, "queueName": job["metadata"]["labels"][QUEUE],
                         "podSets": [{"name": "main", "count": job["spec"]["parallelism"]}]},
                "status": {},
            })  # fmt: skip
    for key, workload in fake.all("workloads"):
        jobs = (k for k, j in fake.all("jobs") if j["metadata"]["uid"] == owner_of(workload))
        of = next(jobs, None)
        if of is None:
            del fake.store[key]  # with its owner
        elif not holds(workload, "Finished"):
            _one(fake, key, workload, of)
    _admit(fake)


def _one(fake: FakeKube, key: Key, workload: Table, job: Key) -> None:
    spec = fake.store[job]["spec"]
    conditions = fake.store[job]["status"].get("conditions", ())
    if any(one["type"] in ("Complete", "Failed") for one in conditions):
        _say(fake, key, Finished="JobFinished", QuotaReserved="")
    elif not workload["spec"]["active"] and not holds(workload, "Evicted"):
        _say(fake, key, Evicted=DEACTIVATED)
    elif workload["spec"]["active"] and holds(workload, "Requeued") is False:
        _say(fake, key, Requeued="Reactivated")
    elif holds(workload, "Evicted") or not holds(workload, "Admitted"):
        if not spec["suspend"]:
            fake.change(job, lambda one: one["spec"].update(suspend=True))
        elif holds(workload, "QuotaReserved") and not _active(fake, job):
            _say(fake, key, QuotaReserved="", Admitted="", Requeued="")
    elif spec["suspend"]:
        fake.change(job, lambda one: one["spec"].update(suspend=False))


def _active(fake: FakeKube, job: Key) -> bool:
    """Whether the Job controller counts a pod as active: one that is being deleted is not."""
    pods = fake.pods_of(f"{job[1]}/{job[2]}")
    return any(alive(pod) and "deletionTimestamp" not in pod["metadata"] for _, pod in pods)


def _say(fake: FakeKube, key: Key, **words: str) -> None:
    """Set conditions: true with a reason, false without one."""

    def say(workload: Table) -> None:
        conditions = workload["status"].setdefault("conditions", [])
        for kind, reason in words.items():
            conditions[:] = [one for one in conditions if one["type"] != kind]
            stamp, status = fake.stamp(), "True" if reason else "False"
            conditions.append({"type": kind, "status": status, "lastTransitionTime": stamp,
                               "reason": reason or DEACTIVATED})  # fmt: skip

    fake.change(key, say)


def _cycle(fake: FakeKube, site: Site, rows: list[tuple[Key, Table]]) -> None:
    """Run one cycle of the queues of a site, whose local queues are named like them."""
    snapshot, pending = Snapshot(site), Pending(site)
    keys: dict[str, Key] = {}
    for key, workload in rows:
        gpus, made = _gpus(fake, workload), _made_s(workload)
        name, pods = f"{key[1]}/{key[2]}", PodSet({GPU: gpus})
        one = Workload(name, workload["spec"]["queueName"], (pods,), created_s=made)
        keys[name] = key
        if holds(workload, "QuotaReserved"):
            placed = Placed("main", 1, {GPU: "main"}, {GPU: exact(gpus)})
            if not holds(workload, "Evicted"):
                snapshot.add(Held(one, (placed,), made))
            else:  # it holds its quota until its pods have ended
                snapshot.use(one.queue, {("main", GPU): exact(gpus)})
        elif workload["spec"]["active"] and holds(workload, "Requeued") is not False:
            pending.add(one)
    result = cycle(snapshot, pending.heads(), fake.now_s)
    for held in result.admitted:
        key = keys[held.workload.name]
        _say(fake, key, QuotaReserved="QuotaReserved", Admitted="Admitted", Evicted="")
    for victim, _ in result.victims:
        _say(fake, keys[victim.held.workload.name], Evicted="Preempted")


def _made_s(workload: Table) -> float:
    return datetime.fromisoformat(workload["metadata"]["creationTimestamp"]).timestamp()


def _gpus(fake: FakeKube, workload: Table) -> float:
    uid = owner_of(workload)
    job = next(job for _, job in fake.all("jobs") if job["metadata"]["uid"] == uid)
    template = {"spec": job["spec"]["template"]["spec"]}
    return needs_of(template)[GPU] * float(job["spec"]["parallelism"])


def _admit(fake: FakeKube) -> None:
    """Reserve quota for those that wait, who came first first, or by cycles of a site's queues."""
    rows = [(k, w) for k, w in fake.all("workloads") if not holds(w, "Finished")]
    if fake.site is not None:
        _cycle(fake, fake.site, rows)
        return
    left = fake.quota - sum(_gpus(fake, w) for _, w in rows if holds(w, "QuotaReserved"))
    for key, workload in rows:
        waits = workload["spec"]["active"] and not holds(workload, "QuotaReserved")
        if not waits or holds(workload, "Requeued") is False:
            continue
        gpus = _gpus(fake, workload)
        if gpus <= left:
            left -= gpus
            _say(fake, key, QuotaReserved="QuotaReserved", Admitted="Admitted", Evicted="")
