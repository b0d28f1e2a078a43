"""Policy of a Kueue site: quotas, cycles, preemption, and pods that wait for nodes.

Page: ``docs/kueue.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from morph_opt.core.domain import (
    Allocation,
    Cluster,
    InputError,
    Job,
    JobState,
    RoundState,
)
from morph_opt.core.domain.errors import some
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.inputs.kueue.admissions import admission_of
from morph_opt.inputs.kueue.kube import is_gpu
from morph_opt.inputs.kueue.queues import USUAL, Flavor, Group, Queue
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.scheduling.backfill.nodes import bits
from morph_opt.scheduling.decision.rules.model import Rule
from morph_opt.scheduling.decision.rules.patterns import matches
from morph_opt.scheduling.decision.rules.queues import CohortQuota, Priority
from morph_opt.scheduling.kueue.amounts import OF_JOBS, of_job
from morph_opt.scheduling.kueue.clusters import ALL, GPU, KueueSite, Places, one_queue
from morph_opt.scheduling.kueue.cycle import Result
from morph_opt.scheduling.kueue.domains import PODS, Used
from morph_opt.scheduling.kueue.nodes import Nodes
from morph_opt.scheduling.kueue.objects import held_of, read_workload
from morph_opt.scheduling.kueue.pending import Pending
from morph_opt.scheduling.kueue.places import topology_unsuited
from morph_opt.scheduling.kueue.pods import Pods
from morph_opt.scheduling.kueue.reasons import spelled, waits
from morph_opt.scheduling.kueue.rounds import Settled, settle
from morph_opt.scheduling.kueue.site import Site, Snapshot
from morph_opt.scheduling.kueue.usage import LocalUsage
from morph_opt.scheduling.kueue.workloads import PER_UNIT, Held, Placed, PodSet, Workload, exact
from morph_opt.scheduling.policies.base import Decision, Policy, RoundReport
from morph_opt.scheduling.policies.batch import Requests, Shaped

SAME_S = 1.0
"""Largest difference of two instants that are the same creation of a workload."""


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
        self.site = site or KueueSite()
        self.evictions: Counter[str] = Counter()
        """Number of evictions so far, by Kueue's reason and cause."""
        self._places: Places | None = None
        self._forget_all()

    def _forget_all(self) -> None:
        """Forget every job."""
        self._jobs: dict[str, Workload] = {}
        self._asked: dict[str, Job] = {}
        self._held: dict[str, Held] = {}
        self._wanted: dict[str, tuple[Pods, ...]] = {}
        self._counted: dict[str, list[tuple[Used, tuple[str, ...], dict[str, int]]]] = {}
        self._waits: dict[str, float] = {}
        self._timeouts: dict[str, int] = {}
        self._barred: dict[str, str] = {}
        self._shapes: dict[str, Shaped] = {}
        self._last = Settled({}, {}, {}, 0)
        self._down = 0
        self._places_asked = True

    @property
    def remembers(self) -> bool:
        """Whether decisions depend on earlier rounds: they do."""
        return True

    def observe(self, state: RoundState) -> None:
        """Decide as in `decide`, for a round that is decided elsewhere."""
        self.decide(state)

    def notes(self) -> tuple[str, ...]:
        """Return lines on what the objects state and the policy does not follow."""
        left = list(self.site.unmodelled())
        found = [f"kueue: not modelled, and left out: {', '.join(left)}"] if left else []
        files = self.site.files
        if files is not None and not files.workloads:
            queues = files.queues.queues.values()
            covered = {r for one in queues for group in one.groups for r in group.resources}
            unstated = sorted(one for one in covered & USUAL if one not in {PODS, *OF_JOBS})
            if unstated:
                rule = f"jobs state no {', '.join(unstated)}: quotas of it are idle"
                found.append(f"kueue: {rule} (Workload objects among the files state it)")
        return tuple(found)

    def decide(self, state: RoundState) -> Decision:
        """See `morph_opt.scheduling.policies.base.Policy`."""
        if self._places is None or (
            self._places.cluster is not state.cluster and self._places.cluster != state.cluster
        ):
            self._begin(state.cluster)
        now_s = state.time_s
        self._close(sum(1 << node for node in state.unavailable), now_s)
        self._pending.due(now_s)
        self._follow(state)
        self._evict_late(now_s)
        self._usage.sample(self._held.values(), now_s)
        self._snapshot.local_usage = self._usage.now()
        self._last = settled = self._settle(now_s)
        for name, (victim, _) in settled.victims.items():
            self.evictions[f"Preempted {victim.reason}"] += 1
            self._release(name)
        for held in settled.admitted.values():
            self._hold(held, now_s)
            self._usage.admit(held)
        self._all_run()
        order = {known.job.name: known for known in state.jobs}
        at = self._nodes.at
        allocation = Allocation(tuple(at[name] for name in order if name in at))
        status = "heuristic" if state.jobs else "idle"
        return Decision(
            allocation,
            RoundReport(status),
            next_s=self._next_s(now_s),
            reason=partial(self._reason, order),
        )

    def _settle(self, now_s: float) -> Settled:
        """Run the cycles of an instant."""
        if not self.site.placing.blocks:
            return settle(self._snapshot, self._pending, now_s)

        def goes_on(result: Result) -> bool:
            for victim, _ in result.victims:
                self._release(victim.held.workload.name)
            for held in result.admitted:
                self._hold(held, now_s)
            return self._all_run()

        if not self._all_run():
            return Settled({}, {}, {}, 0)
        return settle(self._snapshot, self._pending, now_s, goes_on)

    def _all_run(self) -> bool:
        """Place the admitted workloads that wait for nodes; return whether none is left."""
        for name in list(self._waits):
            self._place(name)
        return not self._waits

    def _hold(self, held: Held, now_s: float) -> None:
        """Note the quota of an admitted workload, once."""
        if self._held.get(held.workload.name) is not held:
            self._held[held.workload.name] = held
            self._waits[held.workload.name] = now_s

    # --- what happened since ------------------------------------------------------------------

    def _begin(self, cluster: Cluster) -> None:
        """Learn the cluster of the first round, or another."""
        self._forget_all()
        self._places = Places(self.site, cluster)
        files = self.site.files
        queues = files.queues if files is not None else one_queue(cluster)
        if not queues.flavors:
            named = (f for one in queues.queues.values() for g in one.groups for f in g.flavors)
            queues.flavors = {name: Flavor(name, {}) for name in named}
        levels = files.levels if files is not None else {}
        lost = [one for one in queues.flavors.values() if one.topology not in ("", *levels)]
        queues.flavors |= {one.name: replace(one, topology="") for one in lost}
        self._places_asked = not lost
        spaces = files.spaces if files is not None else None
        self._tree = site = Site(queues, self.site.settings(), spaces)
        self._requests = requests = Requests(self._belief, cluster)
        self._nodes = Nodes(
            cluster, requests.capacity, self._belief, requests.runs, self.site.placing
        )
        topologies = self._places.topologies(queues.flavors.values(), 0)
        self._snapshot = Snapshot(site, suits=self._suits, topologies=topologies)
        for one in self._beside:
            flavor, _, resource = one.pool.rpartition(" (")
            if one.name in queues.queues:
                slot = flavor, resource.removesuffix(")")
                self._snapshot.use(one.name, {slot: exact(one.used)})
        self._usage = LocalUsage(site)
        self._pending = Pending(site, self._usage.now)

    def _close(self, down: int, now_s: float) -> None:
        """Take nodes that are down from the cluster and its topologies, and give others back."""
        self._nodes.free.down = down
        if down != self._down and self._snapshot.topologies:
            assert self._places is not None
            flavors = self._tree.queues.flavors.values()
            self._snapshot.topologies = self._places.topologies(flavors, down)
            for queue in self._tree.queues.queues:
                self._pending.wake(queue, now_s)
        self._down = down

    def _suits(self, queue: Queue, pods: PodSet, flavor: Flavor, group: Group) -> str:
        """Return why the nodes of a flavor cannot hold pods; "" if they can."""
        if why := topology_unsuited(self._snapshot, queue, pods, flavor, group):
            return why
        if not any(is_gpu(one) and pods.requests.get(one) for one in group.resources):
            return ""
        one = self._pods(pods, flavor, pods.count)
        gpus = self._requests.capacity[:, 0]
        each = (1 if one.apart else int(gpus[node] / one.gpus) for node in bits(one.nodes))
        found = sum(each)
        if found >= one.count:
            return ""
        what = "nodes" if one.apart else "pods on nodes"
        return f"{found} {what} of flavor {flavor.name} could hold its pods, it needs {one.count}"

    def _pods(self, pods: PodSet, flavor: Flavor | None, count: int) -> Pods:
        """Return pods of a set with the nodes of a flavor that may hold them."""
        assert self._places is not None
        shape = self._shapes.get(pods.name)
        if shape is not None:
            nodes = shape[2] if flavor is None else shape[2] & self._places.of(flavor)
            return Pods(count, shape[1], nodes, apart=True)
        gpus = sum(amount for resource, amount in pods.requests.items() if is_gpu(resource))
        every = (1 << len(self._places.cluster.nodes)) - 1
        nodes = every if flavor is None else self._places.open_to(pods, flavor)
        sides = [0.0] * (self._requests.capacity.shape[1] - 1)
        return Pods(count, (float(gpus), *sides), nodes & self._large(gpus))

    def _large(self, gpus: float) -> int:
        """Return the nodes with this number of GPUs or more."""
        has = self._requests.capacity[:, 0]
        return sum(1 << node for node in range(len(has)) if has[node] >= gpus)

    def _follow(self, state: RoundState) -> None:
        """Take in what ended, arrived, lost its nodes or runs without our doing."""
        now_s, at = state.time_s, self._nodes.at
        known = {one.job.name: one for one in state.jobs}
        for name in [one for one in self._jobs if one not in known]:
            self._forget(name, now_s)
        for name, one in known.items():
            if name not in self._jobs:
                self._arrive(one, now_s)
            elif one.running is not at.get(name) and one.running != at.get(name):
                self._moved(one, now_s)

    def _forget(self, name: str, now_s: float) -> None:
        workload = self._jobs[name]
        self._barred.pop(name, None)
        self._timeouts.pop(name, None)
        if name in self._held:
            self._give_back(name, now_s)
        elif name in self._nodes.at:
            self._leave(name)
        else:
            self._pending.remove(name, workload.queue)
        del self._jobs[name], self._asked[name]

    def _give_back(self, name: str, now_s: float) -> None:
        """Give back the quota and the nodes of a workload, for which others may have waited."""
        self._snapshot.remove(self._held[name])
        self._release(name)
        self._pending.wake(self._jobs[name].queue, now_s)

    def _arrive(self, known: JobState, now_s: float) -> None:
        job = known.job
        queue, local = self._queue_of(job)
        if not queue and known.running is None:
            raise self._without_queue(job)
        workload, why = self._workload(job, queue, local)
        self._jobs[job.name], self._asked[job.name] = workload, job
        closed = self._tree.queues.local.get(local)
        if known.running is not None:
            self._adopt(workload, known, now_s)
        elif why or (closed is not None and closed.away):
            self._barred[job.name] = why or (closed.away if closed else "")
        else:
            self._pending.add(workload)

    def _adopt(self, workload: Workload, known: JobState, now_s: float) -> None:
        """Hold quota for a job that runs already, as its object states or as its nodes imply."""
        running = known.running
        assert running is not None
        shape = self._shapes.get(workload.pod_sets[0].name)
        self._nodes.settle(running, () if shape is None else shape[1])
        if workload.queue:  # else it is on its nodes without quota
            held = self._stated(workload, known) or self._implied(workload, known, now_s)
            self._snapshot.add(held)
            self._held[workload.name] = held
        self._count(workload.name)

    def _stated(self, workload: Workload, known: JobState) -> Held | None:
        """Return the admission that the object of a running job states; None without one."""
        files = self.site.files
        item = None if files is None else files.workloads.get(workload.name)
        found = None if item is None else admission_of(item)
        if found is None or found.queue != workload.queue or found.since_s != known.last_start_s:
            return None
        queue = self._tree.queues.queues[workload.queue]
        every = {one.name for one in workload.pod_sets}
        if {one.name for one in found.sets} != every:
            return None
        sets = []
        for one in found.sets:
            flavors = dict(one.flavors)
            for resource in one.amounts:
                group = queue.group_of(resource)
                if resource not in flavors and group is not None and group.flavors:
                    flavors[resource] = group.flavors[0]
            sets.append(replace(one, flavors=flavors))
        return held_of(workload, tuple(sets), found.since_s)

    def _implied(self, workload: Workload, known: JobState, now_s: float) -> Held:
        """Return the admission of a running job with the first flavor of its nodes."""
        assert known.running is not None
        queue = self._tree.queues.queues[workload.queue]
        mine = sum(1 << node for node in known.running.placement.nodes)
        flavors: dict[str, str] = {}
        for group in queue.groups:
            suiting = [f for f in group.flavors if not mine & ~self._nodes_of(f)]
            for resource in group.resources if group.flavors else ():
                flavors[resource] = (suiting or group.flavors)[0]
        placed = []
        for pods in workload.pod_sets:
            amounts = {r: n for r, n in pods.amounts(pods.count).items() if r in flavors}
            placed.append(Placed(pods.name, pods.count, {r: flavors[r] for r in amounts}, amounts))
        since_s = now_s if known.last_start_s is None else known.last_start_s
        return Held(workload, tuple(placed), since_s)

    def _moved(self, known: JobState, now_s: float) -> None:
        """Follow a job that was stopped or placed by others than the policy."""
        name, running = known.job.name, known.running
        held = self._held.get(name)
        if running is None:
            if held is not None and any(one.domains is not None for one in held.placed):
                # The nodes that its admission names are gone: Kueue evicts it.
                self._give_back(name, now_s)
                self.evictions["NodeFailures"] += 1
                self._pending.add(replace(self._jobs[name], evicted=("NodeFailures", now_s)))
                return
            self._leave(name)
            if held is not None and name not in self._waits:
                self._waits[name] = now_s  # its pods are made again, and it keeps its quota
            return
        if held is None and self._jobs[name].queue:
            self._pending.remove(name, self._jobs[name].queue)
            self._adopt(self._jobs[name], known, now_s)
            return
        self._leave(name)
        self._waits.pop(name, None)
        shape = self._shapes.get(self._jobs[name].pod_sets[0].name)
        self._nodes.settle(running, () if shape is None else shape[1])
        self._count(name)

    def _queue_of(self, job: Job) -> tuple[str, str]:
        """Return the cluster queue and the local queue of a job; "" for one that has none."""
        queues = self._tree.queues
        if self.site.files is None:
            return ALL, ""
        if job.tenant in queues.queues:
            return job.tenant, ""
        found = [one for one in queues.local if job.tenant in (one, one.partition("/")[2])]
        if len(found) == 1 and queues.local[found[0]].queue in queues.queues:
            return queues.local[found[0]].queue, found[0]
        return "", ""

    def _without_queue(self, job: Job) -> InputError:
        known = [*self._tree.queues.queues, *self._tree.queues.local]
        rule = f"tenant {job.tenant!r} is neither a cluster queue nor one local queue of the files"
        rule += f"{did_you_mean(job.tenant, known)}; they have {some(known)}"
        return InputError(rule, field=f"job {job.name}")

    def _workload(self, job: Job, queue: str, local: str) -> tuple[Workload, str]:
        """Return the workload of a job, and why no nodes could ever hold it or ""."""
        groups = self._tree.queues.queues[queue].groups if queue else ()
        covered = {resource for group in groups for resource in group.resources}
        known = self._object(job)
        if known is not None:
            return self._as_stated(known, job, queue, covered), ""
        try:
            shape, why = self._requests.of(job), ""
        except InputError as error:
            shape, why = (0, (), 0), error.rule
        count, _, allowed = shape
        count = count or 1
        gpus = next((r for group in groups for r in group.resources if is_gpu(r)), GPU)
        each = job.requested_gpus / count
        asked = {gpus: each} | of_job(job, each, covered)
        name = f"{count}x{each:g}@{allowed:x}"
        self._shapes[name] = shape
        pods = PodSet(asked, count, name, topology=self.site.placing.topology)
        levels = (one.level for one in self._levels if matches(job.name, one.jobs))
        priority = int(job.priority) + next(levels, 0)
        made = Workload(job.name, queue, (pods,), priority, job.submission_s, "", local)
        return made, why

    def _object(self, job: Job) -> Workload | None:
        """Return the workload of the object of a job; None if no file has one of its GPUs."""
        files = self.site.files
        item = None if files is None else files.workloads.get(job.name)
        if files is None or item is None:
            return None
        try:
            found = read_workload(item, files.classes)
        except InputError as error:
            files.unmodelled["Workload objects that cannot be read"].append(str(error))
            return None
        gpus = sum(
            amount * pods.count
            for pods in found.pod_sets
            for resource, amount in pods.requests.items()
            if is_gpu(resource)
        )
        return found if gpus == job.requested_gpus else None

    def _as_stated(self, known: Workload, job: Job, queue: str, covered: set[str]) -> Workload:
        """Return the workload of an object in a queue, all pods of which start or none.

        Usual resources that the queue does not cover are taken to be left out of quotas.
        """
        sets = tuple(
            replace(
                one,
                requests={r: n for r, n in one.requests.items() if r in covered or r not in USUAL},
                min_count=None,
                topology=one.topology if self._places_asked else None,
            )
            for one in known.pod_sets
        )
        same = abs(known.created_s - job.submission_s) < SAME_S
        return replace(
            known,
            queue=queue,
            pod_sets=sets,
            created_s=job.submission_s,
            evicted=known.evicted if same else None,
            preempted=known.preempted if same else None,
        )

    # --- nodes --------------------------------------------------------------------------------

    def _nodes_of(self, flavor: str) -> int:
        assert self._places is not None
        return self._places.of(self._tree.queues.flavor(flavor))

    def _wants(self, name: str) -> tuple[Pods, ...]:
        """Return the pods of an admitted workload with the nodes that its admission allows."""
        if name not in self._wanted:
            sets = {one.name: one for one in self._jobs[name].pod_sets}
            found: list[Pods] = []
            for placed in self._held[name].placed:
                pods = sets[placed.name]
                flavors = (f for r, f in placed.flavors.items() if is_gpu(r))
                flavor = next(flavors, None)
                known = None if flavor is None else self._tree.queues.flavor(flavor)
                if any(is_gpu(r) and n for r, n in pods.requests.items()):
                    found += self._in_domains(placed, self._pods(pods, known, placed.count))
            self._wanted[name] = tuple(found)
        return self._wanted[name]

    def _in_domains(self, placed: Placed, pods: Pods) -> list[Pods]:
        """Return the pods of a set by the domains of its admission."""
        if placed.domains is None:
            return [pods]
        assert self._places is not None
        return [
            replace(pods, count=n, nodes=self._places.within(placed.levels, values), apart=False)
            for values, n in placed.domains
        ]

    def _place(self, name: str) -> None:
        """Place the pods of an admitted workload as far as there are nodes for them."""
        wanted = self._wants(name)
        if wanted and self._nodes.place(self._asked[name], wanted):
            del self._waits[name]
            self._count(name)

    def _count(self, name: str) -> None:
        """Count the pods of a job in topologies that have no domains of it."""
        held = self._held.get(name)
        if held is not None and any(one.domains is not None for one in held.placed):
            return
        assert self._places is not None
        made = self._nodes.at[name]
        gpus = {r: 0 for one in self._jobs[name].pod_sets for r in one.requests if is_gpu(r)}
        for used in {id(one): one for one in self._snapshot.used.values()}.values():
            flavors = [f for f, one in self._snapshot.used.items() if one is used]
            topology = self._snapshot.topologies[flavors[0]]
            for node, held_gpus in made.placement.parts:
                labels = self._places.labels_of(node)
                if not all(level in labels for level in topology.levels):
                    continue
                key = topology.key(tuple(labels[level] for level in topology.levels))
                amounts = dict.fromkeys(gpus, PER_UNIT * len(held_gpus))
                used.add(key, amounts, 1)
                self._counted.setdefault(name, []).append((used, key, amounts))

    def _leave(self, name: str) -> None:
        """Give back the nodes of a workload."""
        self._nodes.leave(name)
        for used, key, amounts in self._counted.pop(name, ()):
            used.add(key, amounts, -1)

    def _release(self, name: str) -> None:
        """Forget the quota and the nodes of a workload."""
        self._leave(name)
        self._held.pop(name, None)
        self._wanted.pop(name, None)
        self._waits.pop(name, None)

    def _evict_late(self, now_s: float) -> None:
        """Evict workloads whose pods did not all run in time."""
        placing = self.site.placing
        if placing.ready_s is None:
            return
        for name in [n for n, at_s in self._waits.items() if at_s + placing.ready_s <= now_s]:
            times = self._timeouts.get(name, 0)
            self._timeouts[name] = times + 1
            self.evictions["PodsReadyTimeout"] += 1
            workload = replace(self._jobs[name], evicted=("PodsReadyTimeout", now_s))
            self._snapshot.remove(self._held[name])
            self._release(name)
            back_s = min(placing.most_backoff_s, placing.backoff_s * 2.0 ** min(times, 60))
            self._pending.add(workload, now_s + max(back_s, self._tree.settings.requeue_s))
            self._pending.wake(workload.queue, now_s)

    def _next_s(self, now_s: float) -> float | None:
        """Return the next instant at which a try or a timeout is due."""
        due = [] if self._pending.next_s is None else [self._pending.next_s]
        if self.site.placing.ready_s is not None:
            due += [at_s + self.site.placing.ready_s for at_s in self._waits.values()]
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
            if self.site.placing.blocks and self._waits and name not in self._last.waiting:
                return f"waits; nobody is admitted before {some([*self._waits])} has its nodes"
            if name in self._last.victims:
                victim, preemptor = self._last.victims[name]
                return f"is preempted for {preemptor.name} ({victim.reason}) and queues again"
            return f"waits; {waits(self._snapshot, self._pending, workload, self._last)}"
        held = self._held[name]
        granted = ", ".join(
            f"{spelled(resource, amount)} {resource} of flavor {flavor}"
            for (flavor, resource), amount in held.usage.items()
        )
        whom = [n for n, (_, one) in self._last.victims.items() if one.name == name]
        for_it = f", for which {some(whom)} ended" if whom else ""
        if name in self._nodes.at:
            return f"runs in cluster queue {workload.queue} with {granted}{for_it}"
        wanted = self._wants(name)
        pods = " and ".join(
            f"{one.count} node{'s' if one.count > 1 else ''} with {one.gpus} free GPUs"
            if one.apart
            else f"nodes for {one.count} pod{'s' if one.count > 1 else ''} of {one.gpus} GPUs"
            for one in wanted
        )
        able = self._nodes.able(name, wanted)
        return f"is admitted with {granted}{for_it} and waits for {pods}: {able} have them"
