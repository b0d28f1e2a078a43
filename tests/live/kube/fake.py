"""A pretended Kubernetes: an API server on a port of loopback, with the rules that matter here.

Behind it a Job controller, a scheduler, kubelets and the taint eviction of lost nodes, in virtual
time. What it states of the real one, and where that is written:

* *Versions* (kubernetes.io/docs/reference/using-api/api-concepts, "Resource versions"): every write
  gives an object a new ``resourceVersion``; a patch or update that names another than the present
  one, or another ``uid``, is 409 Conflict; a patch that changes nothing writes nothing. An update
  of a Lease must name one; a create must not, and of a name that exists is 409 AlreadyExists.
* *Lists* (same page, "Retrieving large results sets in chunks"): ``limit`` and ``continue``; all
  pages are of one moment, and a token that is too old is 410 Gone with reason Expired. Of fields of
  pods ``status.phase`` can be selected, of those of Jobs here none.
* *Pods* (docs/concepts/workloads/pods, "Pod update and replacement"; KEP-3521, KEP-3838 and
  ``ValidatePodUpdate`` in pkg/apis/core/validation): gates are only removed; while the *old* pod
  has one, keys may be added to ``nodeSelector``, none changed or removed; all else of the spec but
  images and added tolerations is 422.
* *Jobs* (docs/concepts/workloads/controllers/job, "Suspending a Job", "Mutable Scheduling
  Directives", KEP-2232, KEP-2926): ``suspend`` and ``parallelism`` may change; of the template
  selector, tolerations, gates and notes while it is suspended and has no ``startTime``;
  ``completions`` of an Indexed Job together with ``parallelism``. A suspended Job's pods lose
  their tracking finalizer and are deleted with their grace period, so that they count neither as
  succeeded nor as failed whatever they exit with (``deleteJobPods`` in pkg/controller/job); pods
  that others delete count as failed, or as succeeded if they exit with 0
  (kubernetes/enhancements#2308). A finished Job never gets a pod again.
* *Deletion* (docs/concepts/workloads/pods/pod-lifecycle): a pod with a node stays, and holds what
  it has, until its kubelet has ended it; that of a lost node until the node is removed.
* *Kueue*, where there is a ``quota`` of GPUs, or a ``site`` of queues: `tests.live.kube.kueue`.
* *Rights* (docs/reference/access-authn-authz/rbac): what no rule allows is 403 Forbidden, of
  resources, subresources and verbs apart. *Admission* refuses with 403, too.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from morph_opt.scheduling.kueue.site import Site
from tests.live.kube.kueue import queued, reconcile, workload_of
from tests.live.kube.rules import (
    GATE,
    GPU,
    GROUPS,
    HOST,
    KINDS,
    VERBS,
    Key,
    Rule,
    Table,
    alive,
    amount,
    api_version,
    needs_of,
    owner_of,
    serve,
)

EPOCH_S = 1_795_000_000.0
TRACKING = "batch.kubernetes.io/job-tracking"
LOST_S = 10.0


@dataclass(slots=True)
class Work:
    """What the pods of a Job do: together, once all are there."""

    work_s: float
    checkpoint: bool = True
    foreign: bool = False
    exits_clean: bool = False
    done_s: float = 0.0
    held: bool = False
    deleted: bool = False
    started: int = 0
    over_s: float = 0.0
    ran_again: int = 0


@dataclass
class FakeKube:
    """See the module. ``rules`` None allows everything."""

    nodes: int = 3
    gpus: int = 8
    rules: list[Rule] | None = None
    quota: int = 0
    site: Site | None = None
    seed: int = 0
    refuse: float = 0.0
    grace_s: float = 2.0
    now_s: float = EPOCH_S
    skew_s: float = 0.0
    away_until_s: float = 0.0
    kueue_away_until_s: float = 0.0
    token: str = ""
    page: int = 10**9
    expire: int = 0
    store: dict[Key, Table] = field(default_factory=dict)
    work: dict[str, Work] = field(default_factory=dict)
    verbs: set[tuple[str, str, str]] = field(default_factory=set)
    touched: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unseen: int = 0
    codes: dict[int, int] = field(default_factory=dict)
    version: int = 100
    before_write: Callable[[Key], None] | None = None

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.lock = threading.RLock()
        self.pages: dict[int, list[Table]] = {}
        self.ends: dict[Key, float] = {}
        self.lost: dict[str, float] = {}
        for name in ("kube-system", "ml", "other", "morph-opt"):
            self.put(("namespaces", "", name), {"metadata": {}})
        for i in range(self.nodes):
            self.add_node(f"n{i + 1}")
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def date_time_string(self, timestamp: float | None = None) -> str:
                return formatdate(timestamp or fake.now_s + fake.skew_s, usegmt=True)

            def _any(self) -> None:
                with fake.lock:
                    serve(fake, self)

        for verb in VERBS:
            setattr(Handler, f"do_{verb}", Handler._any)
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def has_kueue(self) -> bool:
        """Whether there is a Kueue."""
        return bool(self.quota or self.site)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        """End it."""
        self.server.shutdown()
        self.server.server_close()

    # ------------------------------------------------------------------ objects
    def put(self, key: Key, value: Table) -> Table:
        """Write an object, with a new version if anything of it differs."""
        meta = value.setdefault("metadata", {})
        old = self.store.get(key)
        if old is not None and old == value:
            return old
        self.version += 1
        kind, namespace, name = key
        value["apiVersion"], value["kind"] = api_version(GROUPS[kind]), KINDS[kind]
        meta |= {"name": name, "resourceVersion": str(self.version)}
        meta.setdefault("uid", f"{self.draw.getrandbits(32):08x}-{self.version}")
        meta.setdefault("creationTimestamp", self.stamp())
        if namespace:
            meta["namespace"] = namespace
        self.store[key] = value
        return value

    def change(self, key: Key, make: Callable[[Table], None]) -> None:
        """Change an object as a controller does."""
        value = deepcopy(self.store[key])
        make(value)
        self.put(key, value)

    def all(self, kind: str) -> list[tuple[Key, Table]]:
        """Objects of a kind."""
        return [(key, value) for key, value in self.store.items() if key[0] == kind]

    def stamp(self) -> str:
        """The clock, as the API writes it."""
        return f"{datetime.fromtimestamp(self.now_s, UTC):%Y-%m-%dT%H:%M:%SZ}"

    def add_node(self, name: str, **more: Any) -> None:
        """A node with GPUs."""
        self.put(("nodes", "", name), {
            "metadata": {"labels": {HOST: f"host-{name}", "nvidia.com/gpu.product": "A800"}},
            "spec": more, "status": {
                "allocatable": {GPU: str(self.gpus), "cpu": "64", "memory": "512Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        })  # fmt: skip

    def submit(
        self, name: str, gpus: int, work_s: float, says: str | None = "checkpoint", *,
        pods: int = 1, namespace: str = "ml", gates: tuple[str, ...] = (GATE,),
        suspend: bool = False, labels: Mapping[str, str] | None = None,
        work: Mapping[str, Any] | None = None, needs: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Work:  # fmt: skip
        """A Job of so many pods with so many GPUs each; ``spec`` of its pods."""
        asked = {GPU: str(gpus), "cpu": "4", **(needs or {})} if gpus else {"cpu": "4"}
        template = {"containers": [{"name": "a", "image": "b", "resources": {"limits": asked}}],
                    "schedulingGates": [{"name": gate} for gate in gates],
                    "restartPolicy": "Never", **spec}  # fmt: skip
        notes = {} if says is None else {"morph-opt.dev/job": says}
        self.put(("jobs", namespace, name), {
            "metadata": {"annotations": notes, "labels": dict(labels or {})},
            "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed",
                     "backoffLimit": 6, "suspend": suspend, "template": {"spec": template}},
            "status": {},
        })  # fmt: skip
        if self.queued(self.store["jobs", namespace, name]):
            self.store["jobs", namespace, name]["spec"]["suspend"] = True  # its webhook
        found = self.work[f"{namespace}/{name}"] = Work(work_s, **(work or {}))
        found.held = suspend
        return found

    def suspend(self, name: str, to: bool = True) -> None:
        """A user suspends a Job, or lets it go on; one of Kueue's by its Workload."""
        version, key = self.version, ("jobs", *name.split("/"))
        if self.queued(self.store[key]):
            self.change(workload_of(key), lambda one: one["spec"].update(active=not to))
        else:
            self.change(key, lambda job: job["spec"].update(suspend=to))
        # Where it is suspended already the API server says so, and writes nothing.
        work, changed = self.work[name], version != self.version
        self.unseen += to and not (changed or work.held)
        work.held = to and (changed or work.held)

    def queued(self, job: Table) -> bool:
        """Whether a Job is Kueue's."""
        return self.has_kueue and queued(job)

    def known(self, name: str) -> bool:
        """Whether Kueue, if a Job is its, has made its Workload."""
        key = ("jobs", *name.split("/"))
        return not self.queued(self.store[key]) or workload_of(key) in self.store

    def delete(self, name: str) -> None:
        """A user deletes a Job, in the foreground."""
        self.work[name].deleted = True
        self.change(("jobs", *name.split("/")),
                    lambda job: job["metadata"].update(deletionTimestamp=self.stamp()))  # fmt: skip

    def cordon(self, name: str, to: bool = True) -> None:
        """A node takes nothing new."""
        self.change(("nodes", "", name), lambda one: one["spec"].update(unschedulable=to))

    def lose(self, name: str) -> None:
        """A node is gone: nobody hears of it any more."""
        self.lost[name] = self.now_s
        self._ready(name, "Unknown")

    def remove(self, name: str) -> None:
        """The object of a lost node is deleted, and its pods with it."""
        del self.store["nodes", "", name]

    def _ready(self, name: str, word: str) -> None:
        conditions = [{"type": "Ready", "status": word}]
        self.change(("nodes", "", name), lambda one: one["status"].update(conditions=conditions))

    # ------------------------------------------------------------------ time
    def clock(self) -> float:
        """The clock of the machine."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.advance(seconds)

    def advance(self, seconds: float, step_s: float = 0.5) -> None:
        """Let pods run and end, and controllers work."""
        with self.lock:
            end_s = self.now_s + seconds
            while self.now_s < end_s - 1e-9:
                step = min(step_s, end_s - self.now_s)
                self.now_s += step
                self._kubelets(step)
                self._jobs()
                if self.has_kueue and self.now_s >= self.kueue_away_until_s:
                    reconcile(self)
                self._schedule()

    def pods_of(self, name: str) -> list[tuple[Key, Table]]:
        """Pods of a Job, the finished ones too."""
        job = self.store.get(("jobs", *name.split("/")))
        uid = job["metadata"]["uid"] if job else ""
        return [(key, pod) for key, pod in self.all("pods") if owner_of(pod) == uid]

    def _kubelets(self, step_s: float) -> None:
        for name, work in self.work.items():
            job = self.store.get(("jobs", *name.split("/")))
            there = [pod for _, pod in self.pods_of(name)
                     if pod["status"].get("phase") == "Running"
                     and pod["spec"]["nodeName"] not in self.lost
                     and "deletionTimestamp" not in pod["metadata"]]  # fmt: skip
            if job is not None and len(there) == job["spec"]["parallelism"]:
                work.done_s += step_s
            for pod in there if work.done_s >= work.work_s else ():
                self._end(pod, "Succeeded")
        for key, pod in self.all("pods"):
            node = pod["spec"].get("nodeName", "")
            leaving = "deletionTimestamp" in pod["metadata"]
            if node and ("nodes", "", node) not in self.store:
                self._gone(key, pod)
            elif node in self.lost:
                if not leaving and self.now_s > self.lost[node] + LOST_S:
                    self._delete(key)
            elif leaving:
                self._leave(key, pod)
            elif node and pod["status"]["phase"] == "Pending":
                self._begin(key, pod)

    def _leave(self, key: Key, pod: Table) -> None:
        """It ends within its grace period."""
        if self.now_s >= self.ends.setdefault(key, self.now_s + self.grace_s):
            work = self.work_of(pod)
            if alive(pod):
                clean = work is not None and work.exits_clean
                self._end(pod, "Succeeded" if clean else "Failed")
            self._gone(key, self.store[key])

    def _begin(self, key: Key, pod: Table) -> None:
        self.change(key, lambda one: one["status"].update(phase="Running"))
        work = self.work_of(pod)
        if work is not None:
            work.started += 1
            work.ran_again += bool(work.over_s)

    def work_of(self, pod: Table) -> Work | None:
        """What a pod works at."""
        for key, job in self.all("jobs"):
            if job["metadata"]["uid"] == owner_of(pod):
                return self.work[f"{key[1]}/{key[2]}"]
        return None

    def _end(self, pod: Table, phase: str) -> None:
        meta = pod["metadata"]
        key = ("pods", meta["namespace"], meta["name"])
        self.change(key, lambda one: one["status"].update(phase=phase))
        work = self.work_of(pod)
        if phase == "Failed" and work is not None and not work.checkpoint:
            work.done_s = 0.0

    def _gone(self, key: Key, pod: Table) -> None:
        """Remove a pod, unless the Job controller has not counted it."""
        if not pod["metadata"].get("finalizers"):
            del self.store[key]
            self.ends.pop(key, None)
        elif alive(pod):
            self._end(pod, "Failed")

    def _delete(self, key: Key) -> None:
        pod = self.store[key]
        if not pod["spec"].get("nodeName"):
            self._gone(key, pod)
        if key in self.store:
            stamp = self.stamp()
            self.change(key, lambda one: one["metadata"].setdefault("deletionTimestamp", stamp))

    def _jobs(self) -> None:
        for key, job in self.all("jobs"):
            name = f"{key[1]}/{key[2]}"
            self._sync(key, deepcopy(job), self.work[name], self.pods_of(name))

    def _sync(self, key: Key, job: Table, work: Work, pods: list[tuple[Key, Table]]) -> None:
        spec, status = job["spec"], job["status"]
        active = [(k, p) for k, p in pods if alive(p) and "deletionTimestamp" not in p["metadata"]]
        over = any(one["type"] in ("Complete", "Failed") for one in status.get("conditions", ()))
        if over or "deletionTimestamp" in job["metadata"]:
            for k, _ in active if over else pods:
                self._untrack(k)
                self._delete(k)
            if not (over or pods):
                del self.store[key]
            return
        for k, pod in pods:
            if not alive(pod) and TRACKING in pod["metadata"].get("finalizers", ()):
                word = "succeeded" if pod["status"]["phase"] == "Succeeded" else "failed"
                status[word] = status.get(word, 0) + 1
                self._untrack(k)
        if status.get("succeeded", 0) >= spec["completions"]:
            status["completionTime"] = self.stamp()
            self._condition(status, "Complete")
            work.over_s = work.over_s or self.now_s
        elif status.get("failed", 0) > spec["backoffLimit"]:
            self._condition(status, "Failed")
        elif spec["suspend"]:
            for k, _ in active:
                self._untrack(k)
                self._delete(k)
        else:
            status.setdefault("startTime", self.stamp())
            want = min(spec["parallelism"], spec["completions"] - status.get("succeeded", 0))
            for _ in range(want - len(active)):
                self._make_pod(key, job)
        self.put(key, job)

    def _condition(self, status: Table, kind: str) -> None:
        one = {"type": kind, "status": "True", "lastTransitionTime": self.stamp()}
        status.setdefault("conditions", []).append(one)

    def _untrack(self, key: Key) -> None:
        self.change(key, lambda pod: pod["metadata"].update(finalizers=[]))

    def _make_pod(self, key: Key, job: Table) -> None:
        name = f"{key[2]}-{self.version}"
        owner = {"kind": "Job", "name": key[2], "uid": job["metadata"]["uid"], "controller": True}
        self.put(("pods", key[1], name), {
            "metadata": {"ownerReferences": [owner], "finalizers": [TRACKING]},
            "spec": deepcopy(job["spec"]["template"]["spec"]), "status": {"phase": "Pending"},
        })  # fmt: skip

    def _schedule(self) -> None:
        """Bind pods without gates, in the order in which they came, where all that they ask is."""
        left = {key[2]: {k: amount(v) for k, v in node["status"]["allocatable"].items()}
                for key, node in self.all("nodes")}  # fmt: skip
        for _, pod in self.all("pods"):
            node = pod["spec"].get("nodeName")
            if node in left and alive(pod):
                for k, v in needs_of(pod).items():
                    left[node][k] -= v
                assert left[node][GPU] >= 0, "the scheduler gave GPUs twice"
        for key, pod in self.all("pods"):
            spec = pod["spec"]
            if spec.get("schedulingGates") or spec.get("nodeName") or not alive(pod):
                continue
            needs = needs_of(pod)
            for node_key, node in self.all("nodes"):
                fits = node["metadata"]["labels"].items() >= spec.get("nodeSelector", {}).items()
                room = left[node_key[2]]
                if (fits and not node["spec"].get("unschedulable") and node_key[2] not in self.lost
                        and not node["spec"].get("taints")
                        and all(room[k] >= v for k, v in needs.items())):  # fmt: skip
                    for k, v in needs.items():
                        room[k] -= v
                    self._bind(key, node_key[2])
                    break

    def _bind(self, key: Key, node: str) -> None:
        done = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.stamp()}

        def bind(pod: Table) -> None:
            pod["spec"]["nodeName"] = node
            pod["status"]["conditions"] = [done]

        self.change(key, bind)
