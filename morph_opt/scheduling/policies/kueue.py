"""Policy of a Kueue site: quotas, cycles, preemption, and pods that wait for nodes.

Page: ``docs/kueue.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from morph_opt.core.domain import (
    Allocation,
    Assignment,
    Cluster,
    InputError,
    Job,
    JobState,
    Placement,
    RoundState,
)
from morph_opt.core.domain.errors import some
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.domain.quotas import Quota
from morph_opt.inputs.kueue.files import KueueFiles, read_files
from morph_opt.inputs.kueue.kube import is_gpu
from morph_opt.inputs.kueue.queues import USUAL, Flavor, Group, Queue, Queues
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.backfill.nodes import bits
from morph_opt.scheduling.backfill.queue import Demand, Free
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import CohortQuota, Priority
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.reasons import waits
from morph_opt.scheduling.kueue.rounds import Settled, settle
from morph_opt.scheduling.kueue.site import GATES, Settings, Site, Snapshot
from morph_opt.scheduling.kueue.usage import LocalUsage
from morph_opt.scheduling.kueue.workloads import PER_UNIT, Held, Placed, PodSet, Workload, exact
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport
from morph_opt.scheduling.policies.batch import Requests, Shaped

GPU = "nvidia.com/gpu"
ALL = "all"
"""Queue of every job where no files are given."""


@dataclass(frozen=True, slots=True)
class Placing:
    """Placement of admitted workloads, which Kueue leaves to the scheduler of Kubernetes.

    Parameters
    ----------
    pods
        Whether pods are placed one by one, so that those placed hold GPUs while others wait, and
        not all of a workload together.
    spread
        Whether the emptiest nodes are taken first, and not the fullest.
    ready_s, backoff_s, most_backoff_s
        See `morph_opt.inputs.kueue.files.KueueFiles`.
    """

    pods: bool = False
    spread: bool = False
    ready_s: float | None = None
    backoff_s: float = 60.0
    most_backoff_s: float = 3_600.0


_WORDS = {"placement": ("gang", "pods"), "nodes": ("packed", "spread")}


@dataclass(frozen=True, slots=True)
class KueueSite:
    """Objects of a site with the placement of its pods.

    Parameters
    ----------
    files
        Its objects; None for one queue over all GPUs.
    placing
        See the class.
    """

    files: KueueFiles | None = None
    placing: Placing = Placing()

    @classmethod
    def read(cls, text: str) -> KueueSite:
        """Read ``FILE,FILE,...``, with words like ``placement=pods`` among them.

        Raises
        ------
        InputError
            If a file cannot be read, or a word is unknown.
        """
        parts = [one for one in text.split(",") if one]
        words = dict(part.split("=", 1) for part in parts if "=" in part)
        paths = [part for part in parts if "=" not in part]
        for name, value in words.items():
            if value not in _WORDS.get(name, ()):
                known = " or ".join(f"{k}={v}" for k, values in _WORDS.items() for v in values)
                raise InputError(f"knows {known}, got {name}={value}", field="--policy kueue")
        files = read_files(paths) if paths else None
        placing = Placing(words.get("placement") == "pods", words.get("nodes") == "spread")
        if files is not None:
            placing = replace(
                placing,
                ready_s=files.ready_s,
                backoff_s=files.backoff_s,
                most_backoff_s=files.most_backoff_s,
            )
        return cls(files, placing)

    def settings(self) -> Settings:
        """Return the settings of Kueue."""
        files, usual = self.files, Settings()
        if files is None:
            return usual
        gates: dict[str, Any] = {
            GATES[name]: on for name, on in files.gates.items() if name in GATES
        }
        return replace(
            usual,
            **gates,
            fair_sharing=files.fair_sharing,
            strategies=files.strategies or usual.strategies,
            by_eviction=files.by_eviction,
            half_life_s=files.half_life_s,
            sampling_s=files.sampling_s,
            resource_weights=files.resource_weights,
        )

    def unmodelled(self) -> Iterator[str]:
        """Yield what the objects state and the policy does not follow."""
        if self.files is None:
            return
        for field, names in sorted(self.files.unmodelled.items()):
            named = [name for name in names if name]
            yield f"{field} ({some(named)})" if named else field
        yield from (f"feature gate {name}" for name in self.files.gates if name not in GATES)


class Places:
    """Flavors of a site on the nodes of a cluster, as bits.

    Parameters
    ----------
    site, cluster
        The nodes of a flavor are those with its labels if the files have nodes of these names;
        else those whose GPU type a label of the flavor, or its name, names.

    Raises
    ------
    InputError
        If a flavor names no type of the cluster.
    """

    def __init__(self, site: KueueSite, cluster: Cluster) -> None:
        self.cluster = cluster
        self._labels = site.files.nodes if site.files is not None else {}
        self._known = {node.name for node in cluster.nodes} <= set(self._labels)
        self._found: dict[str, int] = {}

    def of(self, flavor: Flavor) -> int:
        """Return the nodes of a flavor."""
        if flavor.name not in self._found:
            self._found[flavor.name] = self._find(flavor)
        return self._found[flavor.name]

    def _find(self, flavor: Flavor) -> int:
        nodes = self.cluster.nodes
        if self._known:
            suits = [flavor.labels.items() <= self._labels[n.name].items() for n in nodes]
        elif not flavor.labels:
            return (1 << len(nodes)) - 1
        else:
            named = [_words(one) for one in (*flavor.labels.values(), flavor.name)]
            kinds = [_words(node.type.gpu_type.name) for node in nodes]
            suits = [any(kind <= words for words in named) for kind in kinds]
            if not any(suits):
                known = ", ".join(dict.fromkeys(node.type.gpu_type.name for node in nodes))
                rule = f"flavor {flavor.name} names no GPU type of the cluster ({known}) by a label"
                raise InputError(f"{rule} or its name; give its nodes", field="--policy kueue")
        return sum(1 << at for at, one in enumerate(suits) if one)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower()))


def one_queue(cluster: Cluster) -> Queues:
    """Return one queue over all GPUs of a cluster, with a flavor of each GPU type."""
    gpus: dict[str, int] = {}
    for node in cluster.nodes:
        kind = node.type.gpu_type.name
        gpus[kind] = gpus.get(kind, 0) + node.type.gpus
    quotas = {(kind, GPU): Quota(count) for kind, count in gpus.items()}
    queue = Queue(ALL, groups=(Group((GPU,), tuple(gpus)),), quotas=quotas)
    flavors = {kind: Flavor(kind, {"type": kind}) for kind in gpus}
    return Queues({ALL: queue}, {}, flavors)


class KueuePolicy(Policy):
    """Scheduler of a Kueue site.

    A workload that is admitted holds quota from then on, and runs as soon as there are nodes for
    it. Until then it waits for nodes; after `Placing.ready_s` it is evicted and queues again.

    Parameters
    ----------
    belief
        Speeds: which configurations exist.
    site
        Its objects.
    rules
        Rules of a snapshot: priorities of its jobs, and quota that is in use by none of them.
    """

    name = "kueue"

    def __init__(
        self, belief: SpeedModel, site: KueueSite | None = None, rules: Iterable[Rule] = ()
    ) -> None:
        self._belief = belief
        listed = tuple(rules)
        self._levels = [one for one in listed if isinstance(one, Priority)]
        self._beside = [one for one in listed if isinstance(one, CohortQuota) and one.used]
        self._given = site or KueueSite()
        self._places: Places | None = None
        self._forget_all()

    def _forget_all(self) -> None:
        """Forget every job."""
        self._jobs: dict[str, Workload] = {}
        self._asked: dict[str, Job] = {}
        self._held: dict[str, Held] = {}
        self._at: dict[str, Assignment] = {}
        self._taken: dict[str, list[tuple[int, Demand]]] = {}
        self._waits: dict[str, float] = {}
        self._reserved: dict[str, list[int]] = {}
        self._timeouts: dict[str, int] = {}
        self._barred: dict[str, str] = {}
        self._shapes: dict[str, Shaped] = {}
        self._last = Settled({}, {}, {}, 0)

    @property
    def remembers(self) -> bool:
        """Whether decisions depend on earlier rounds: they do."""
        return True

    def observe(self, state: RoundState) -> None:
        """Decide as in `decide`, for a round that is decided elsewhere."""
        self.decide(state)

    def notes(self) -> tuple[str, ...]:
        """Return lines on what the objects state and the policy does not follow."""
        left = list(self._given.unmodelled())
        found = [f"kueue: not modelled, and left out: {', '.join(left)}"] if left else []
        if self._given.files is not None:
            queues = self._given.files.queues.queues.values()
            covered = {r for one in queues for group in one.groups for r in group.resources}
            unstated = sorted(one for one in covered & USUAL if one not in ("cpu", "pods"))
            if unstated:
                found.append(f"kueue: jobs state no {', '.join(unstated)}: quotas of it are idle")
        return tuple(found)

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        if self._places is None or (
            self._places.cluster is not state.cluster and self._places.cluster != state.cluster
        ):
            self._begin(state.cluster)
        now_s = state.time_s
        self._free.down = sum(1 << node for node in state.unavailable)
        self._pending.due(now_s)
        self._follow(state)
        self._evict_late(now_s)
        self._usage.sample(self._held.values(), now_s)
        self._snapshot.local_usage = self._usage.now()
        self._last = settled = settle(self._snapshot, self._pending, now_s)
        for name in settled.victims:
            self._release(name)
        for name, held in settled.admitted.items():
            self._held[name] = held
            self._waits[name] = now_s
            self._usage.admit(held)
        for name in list(self._waits):
            self._place(name, state)
        order = {known.job.name: known for known in state.jobs}
        allocation = Allocation(tuple(self._at[name] for name in order if name in self._at))
        status = "heuristic" if state.jobs else "idle"
        return Decision(
            allocation,
            RoundReport(status),
            next_s=self._next_s(now_s),
            reason=partial(self._reason, order),
        )

    # --- what happened since ------------------------------------------------------------------

    def _begin(self, cluster: Cluster) -> None:
        """Learn the cluster of the first round, or another."""
        self._forget_all()
        self._places = Places(self._given, cluster)
        files = self._given.files
        queues = files.queues if files is not None else one_queue(cluster)
        if not queues.flavors:
            named = (f for one in queues.queues.values() for g in one.groups for f in g.flavors)
            queues.flavors = {name: Flavor(name, {}) for name in named}
        site = Site(queues, self._given.settings())
        self._requests = Requests(self._belief, cluster)
        self._free = Free(self._requests.capacity)
        self._used: dict[int, set[int]] = {}

        self._site = site
        self._snapshot = Snapshot(site, suits=self._suits)
        for one in self._beside:
            flavor, _, resource = one.pool.rpartition(" (")
            if one.name in queues.queues:
                slot = flavor, resource.removesuffix(")")
                self._snapshot.use(one.name, {slot: exact(one.used)})
        self._usage = LocalUsage(site)
        self._pending = Pending(site, self._usage.now)

    def _suits(self, _queue: Queue, pods: PodSet, flavor: Flavor, group: Group) -> str:
        """Return why the nodes of a flavor cannot hold pods; "" if they can."""
        assert self._places is not None
        if not any(is_gpu(one) for one in group.resources):
            return ""
        count, _, allowed = self._shapes[pods.name]
        found = (allowed & self._places.of(flavor)).bit_count()
        if found >= count:
            return ""
        return f"{found} nodes of flavor {flavor.name} could hold its pods, it needs {count}"

    def _follow(self, state: RoundState) -> None:
        """Take in what ended, arrived, lost its nodes or runs without our doing."""
        now_s = state.time_s
        known = {one.job.name: one for one in state.jobs}
        for name in [one for one in self._jobs if one not in known]:
            self._forget(name, now_s)
        for name, one in known.items():
            if name not in self._jobs:
                self._arrive(one, now_s)
            elif one.running is not self._at.get(name) and one.running != self._at.get(name):
                self._moved(one, now_s)

    def _forget(self, name: str, now_s: float) -> None:
        workload = self._jobs[name]
        self._barred.pop(name, None)
        self._timeouts.pop(name, None)
        if name in self._held:
            self._snapshot.remove(self._held[name])
            self._release(name)
            self._pending.wake(workload.queue, now_s)
        elif name in self._at:
            self._leave_nodes(name)
        else:
            self._pending.remove(name, workload.queue)
        del self._jobs[name], self._asked[name]

    def _arrive(self, known: JobState, now_s: float) -> None:
        job = known.job
        queue, local = self._queue_of(job)
        if not queue and known.running is None:
            raise self._without_queue(job)
        try:
            shape, why = self._requests.of(job), ""
        except InputError as error:
            shape, why = (0, (), 0), error.rule
        workload = self._workload(job, queue, local, shape)
        self._jobs[job.name], self._asked[job.name] = workload, job
        closed = self._site.queues.local.get(local)
        if known.running is not None:
            self._adopt(workload, known, now_s)
        elif why or (closed is not None and closed.away):
            self._barred[job.name] = why or (closed.away if closed else "")
        else:
            self._pending.add(workload)

    def _adopt(self, workload: Workload, known: JobState, now_s: float) -> None:
        """Hold quota for a job that runs already, of the first flavor of its nodes."""
        running = known.running
        assert running is not None
        self._settle_at(workload.name, running)
        if not workload.queue:
            return  # it is on its nodes without quota
        queue = self._site.queues.queues[workload.queue]
        mine = sum(1 << node for node in running.placement.nodes)
        flavors: dict[str, str] = {}
        for group in queue.groups:
            suiting = [f for f in group.flavors if not mine & ~self._nodes_of(f)]
            for resource in group.resources if group.flavors else ():
                flavors[resource] = (suiting or group.flavors)[0]
        pods = workload.pod_sets[0]
        amounts = {r: n for r, n in pods.amounts(pods.count).items() if r in flavors}
        placed = Placed(pods.name, pods.count, {r: flavors[r] for r in amounts}, amounts)
        since_s = now_s if known.last_start_s is None else known.last_start_s
        held = Held(workload, (placed,), since_s)
        self._snapshot.add(held)
        self._held[workload.name] = held

    def _moved(self, known: JobState, now_s: float) -> None:
        """Follow a job that was stopped or placed by others than the policy."""
        name, running = known.job.name, known.running
        if running is None:
            self._leave_nodes(name)
            if name in self._held and name not in self._waits:
                self._waits[name] = now_s  # its pods are made again, and it keeps its quota
            return
        if name not in self._held and self._jobs[name].queue:
            self._pending.remove(name, self._jobs[name].queue)
            self._adopt(self._jobs[name], known, now_s)
            return
        self._leave_nodes(name)
        self._waits.pop(name, None)
        self._settle_at(name, running)

    def _queue_of(self, job: Job) -> tuple[str, str]:
        """Return the cluster queue and the local queue of a job; "" for one that has none."""
        queues = self._site.queues
        if self._given.files is None:
            return ALL, ""
        if job.tenant in queues.queues:
            return job.tenant, ""
        found = [one for one in queues.local if job.tenant in (one, one.partition("/")[2])]
        if len(found) == 1 and queues.local[found[0]].queue in queues.queues:
            return queues.local[found[0]].queue, found[0]
        return "", ""

    def _without_queue(self, job: Job) -> InputError:
        known = [*self._site.queues.queues, *self._site.queues.local]
        rule = f"tenant {job.tenant!r} is neither a cluster queue nor one local queue of the files"
        rule += f"{did_you_mean(job.tenant, known)}; they have {some(known)}"
        return InputError(rule, field=f"job {job.name}")

    def _workload(self, job: Job, queue: str, local: str, shape: Shaped) -> Workload:
        count, _, allowed = shape
        count = count or 1
        groups = self._site.queues.queues[queue].groups if queue else ()
        covered = [resource for group in groups for resource in group.resources]
        gpus = next((one for one in covered if is_gpu(one)), GPU)
        each = job.requested_gpus / count
        asked = {gpus: each}
        if job.cpus_per_gpu and "cpu" in covered:
            asked["cpu"] = job.cpus_per_gpu * each
        name = f"{count}x{each:g}@{allowed:x}"
        self._shapes[name] = shape
        pods = PodSet(asked, count, name)
        levels = (one.level for one in self._levels if matches(job.name, one.jobs))
        priority = int(job.priority) + next(levels, 0)
        return Workload(job.name, queue, (pods,), priority, job.submission_s, "", local)

    # --- nodes --------------------------------------------------------------------------------

    def _nodes_of(self, flavor: str) -> int:
        assert self._places is not None
        return self._places.of(self._site.queues.flavor(flavor))

    def _shape_of(self, name: str) -> Shaped:
        return self._shapes[self._jobs[name].pod_sets[0].name]

    def _place(self, name: str, state: RoundState) -> None:
        """Place the pods of an admitted workload as far as there are nodes for them."""
        count, demand, _ = self._shape_of(name)
        mine = self._reserved.setdefault(name, [])
        if not count:
            return
        missing = count - len(mine)
        ordered = self._ordered(name, missing)
        if len(ordered) < missing and not self._given.placing.pods:
            return
        for node in ordered[:missing]:
            self._free.take(1 << node, demand)
            mine.append(node)
        if len(mine) < count:
            return
        parts = {}
        for node in sorted(mine):
            used = self._used.setdefault(node, set())
            gpus = state.cluster.nodes[node].type.gpus
            parts[node] = [gpu for gpu in range(gpus) if gpu not in used][: round(demand[0])]
        made = Assignment(name, self._asked[name].requested_plan, Placement.of(parts))
        self._free.take(sum(1 << node for node in mine), tuple(-n for n in demand))
        del self._reserved[name], self._waits[name]
        self._settle_at(name, made)

    def _ordered(self, name: str, missing: int) -> list[int]:
        """Return the nodes for the pods of a workload that miss one, all of one GPU type."""
        mine, nodes = self._reserved[name], self._requests.cluster.nodes
        free = self._open_to(name) & ~sum(1 << node for node in mine)
        amounts = self._free.amounts
        sign = -1.0 if self._given.placing.spread else 1.0
        ordered = sorted(bits(free), key=lambda node: (sign * amounts[node, 0], node))
        by_type: dict[str, list[int]] = {}
        for node in ordered:
            by_type.setdefault(nodes[node].type.name, []).append(node)
        if mine:
            return by_type.get(nodes[mine[0]].type.name, [])
        enough = (found for found in by_type.values() if len(found) >= missing)
        return next(enough, max(by_type.values(), key=len, default=[]))

    def _open_to(self, name: str) -> int:
        """Return the nodes that could take a pod of a workload now."""
        _, demand, allowed = self._shape_of(name)
        flavors = (f for r, f in self._held[name].placed[0].flavors.items() if is_gpu(r))
        flavor = next(flavors, None)
        nodes = allowed if flavor is None else allowed & self._nodes_of(flavor)
        return self._free.fits(demand) & nodes

    def _settle_at(self, name: str, made: Assignment) -> None:
        _, demand, _ = self._shape_of(name)
        self._at[name] = made
        for node, gpus in made.placement.parts:
            if not demand or len(gpus) != round(demand[0]):  # placed by others, in another shape
                demand = (float(len(gpus)), *([0.0] * (self._free.amounts.shape[1] - 1)))
            self._free.take(1 << node, demand)
            self._taken.setdefault(name, []).append((node, demand))
            self._used.setdefault(node, set()).update(gpus)

    def _leave_nodes(self, name: str) -> None:
        """Give back the GPUs of a workload."""
        _, demand, _ = self._shape_of(name)
        back = tuple(-amount for amount in demand)
        made = self._at.pop(name, None)
        if made is not None:
            for node, gpus in made.placement.parts:
                self._used[node].difference_update(gpus)
        for node, amounts in self._taken.pop(name, ()):
            self._free.take(1 << node, tuple(-amount for amount in amounts))
        for node in self._reserved.pop(name, ()):
            self._free.take(1 << node, back)

    def _release(self, name: str) -> None:
        """Forget the quota and the nodes of a workload."""
        self._leave_nodes(name)
        self._held.pop(name, None)
        self._waits.pop(name, None)

    def _evict_late(self, now_s: float) -> None:
        """Evict workloads whose pods did not all run in time."""
        placing = self._given.placing
        if placing.ready_s is None:
            return
        for name in [n for n, at_s in self._waits.items() if at_s + placing.ready_s <= now_s]:
            held, times = self._held[name], self._timeouts.get(name, 0)
            self._timeouts[name] = times + 1
            self._snapshot.remove(held)
            self._release(name)
            workload = replace(held.workload, evicted=("PodsReadyTimeout", now_s))
            back_s = min(placing.most_backoff_s, placing.backoff_s * 2.0 ** min(times, 60))
            self._pending.add(workload, now_s + max(back_s, self._site.settings.requeue_s))
            self._pending.wake(workload.queue, now_s)

    def _next_s(self, now_s: float) -> float | None:
        """Return the next instant at which a try or a timeout is due."""
        due = [] if self._pending.next_s is None else [self._pending.next_s]
        if self._given.placing.ready_s is not None:
            due += [at_s + self._given.placing.ready_s for at_s in self._waits.values()]
        return min((one for one in due if one > now_s), default=None)

    # --- reasons ------------------------------------------------------------------------------

    def _reason(self, jobs: Mapping[str, JobState], name: str) -> str:
        """Return why a job got what it got, in one sentence.

        Raises
        ------
        InputError
            If the round has no such job.
        """
        if name not in jobs:
            rule = f"the round has no job {name!r}{did_you_mean(name, jobs)}"
            raise InputError(f"{rule}; it has {', '.join([*jobs][:8])}", field="job")
        return f"{name}: {self._told(name)}"

    def _told(self, name: str) -> str:
        workload = self._jobs[name]
        if name in self._barred:
            return f"waits; {self._barred[name]}"
        if not workload.queue:
            return "is on its nodes and in no cluster queue"
        if name not in self._held:
            if name in self._last.victims:
                victim, preemptor = self._last.victims[name]
                return f"is preempted for {preemptor.name} ({victim.reason}) and queues again"
            return f"waits; {waits(self._snapshot, self._pending, workload, self._last)}"
        count, demand, _ = self._shape_of(name)
        held = self._held[name]
        granted = ", ".join(
            f"{amount / PER_UNIT:g} {resource} of flavor {flavor}"
            for (flavor, resource), amount in held.usage.items()
        )
        whom = [n for n, (_, one) in self._last.victims.items() if one.name == name]
        for_it = f", for which {some(whom)} ended" if whom else ""
        if name in self._at:
            return f"runs in cluster queue {workload.queue} with {granted}{for_it}"
        open_to = self._open_to(name).bit_count() + len(self._reserved.get(name, ()))
        pods = f"{count} node{'s' if count > 1 else ''} with {demand[0]:g} free GPUs"
        return f"is admitted with {granted}{for_it} and waits for {pods}: {open_to} have them"
