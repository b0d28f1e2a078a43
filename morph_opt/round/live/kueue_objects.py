"""Reader of Kueue's objects, which names and leaves out unreadable ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from morph_opt.core.documents import Fields, parse_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import some
from morph_opt.inputs.kueue.admissions import Admission, admission_of, is_over
from morph_opt.inputs.kueue.kube import (
    OBJECT_CHARACTERS,
    KubeNode,
    class_value,
    meta_of,
    name_of,
    read_node,
    sold_in_shares,
)
from morph_opt.inputs.kueue.queues import (
    Queues,
    Slot,
    read_cohort,
    read_flavor,
    read_local_queue,
    read_queue,
)
from morph_opt.round.live.kueue_jobs import (
    Asked,
    HeldPod,
    latest_of,
    read_held_pod,
    read_workload,
)
from morph_opt.round.snapshot import read_text

KINDS = (
    "Workload", "Node", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Cohort", "Topology",
    "Pod", "Namespace", "WorkloadPriorityClass", "PriorityClass",
)  # fmt: skip
_T = TypeVar("_T")


@dataclass(slots=True)
class KueueObjects:
    """Objects of a cluster.

    Parameters
    ----------
    found
        Documents by kind.
    notes
        Lines on what was left out or assumed.
    nodes, queues
        Nodes with GPUs by name, and all queues.
    levels
        Labels of topologies from the top, by name.
    asked
        Workloads that have not finished.
    passed_over
        Workloads that are no part of the round, with the reason.
    pods
        Pods with GPUs on nodes.
    spaces
        Labels of namespaces by name.
    used
        Amount by cluster queue, flavor and resource that no job of the round uses.
    free
        GPUs of each node that nobody holds.
    now_s
        Latest instant that an object has.
    """

    found: dict[str, list[Fields]]
    notes: list[str] = field(default_factory=list)
    nodes: dict[str, KubeNode] = field(default_factory=dict)
    queues: Queues = field(default_factory=Queues)
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    pods: list[HeldPod] = field(default_factory=list)
    spaces: dict[str, dict[str, str]] = field(default_factory=dict)
    used: dict[tuple[str, Slot], float] = field(default_factory=lambda: defaultdict(float))
    free: dict[str, list[int]] = field(default_factory=dict)
    now_s: float = 0.0

    def queue_of(self, job: Asked) -> str:
        """Return the cluster queue of a workload; "" if none is known."""
        if job.admission is not None:
            return job.admission.queue
        queues = self.queues
        if job.local in queues.local:
            name = queues.local[job.local].queue
            return name if name in queues.queues else ""
        if queues.local:
            return ""
        name = job.local.partition("/")[2]
        if name in queues.queues:
            return name
        return next(iter(queues.queues)) if len(queues.queues) == 1 else ""


def read_objects(files: Sequence[str]) -> KueueObjects:
    """Read the objects of these documents, in any order; several may hold objects of one kind.

    Raises
    ------
    InputError
        If a file cannot be read, or there is no workload, node or cluster queue at all.
    """
    found: dict[str, list[Fields]] = {kind: [] for kind in KINDS}
    notes: list[str] = []
    others: dict[str, int] = defaultdict(int)
    for file in files:
        parsed = parse_json(read_text(file), file, characters=OBJECT_CHARACTERS)
        document = Fields(parsed, "", file, None)
        listed = document.rows("items") if document.given("items") else [document]
        of_list = str(document.raw("kind", "")).removesuffix("List") if listed else ""
        for at, row in enumerate(listed):
            try:
                item = row if isinstance(row, Fields) else Fields(row, f"items[{at}]", file, None)
                kind = item.text("kind") if item.has("kind") else of_list
            except InputError as error:
                notes.append(f"{error}: left out, whatever it is")
                continue
            if kind in found:
                found[kind].append(item)
            else:
                others[kind or "no kind"] += 1
    for kind in ("Workload", "Node", "ClusterQueue"):
        if not found[kind]:
            raise InputError(f"no file has an object of kind {kind}", field="--from")
    notes += [f"{count} objects of kind {kind} are not read" for kind, count in others.items()]
    cluster = KueueObjects(found, notes)
    _read_queues(cluster)
    _read_nodes(cluster)
    _read_workloads(cluster)
    cluster.free = {name: list(range(node.gpus)) for name, node in cluster.nodes.items()}
    return cluster


def _each(
    cluster: KueueObjects, kind: str, read: Callable[[Fields], _T], meaning: str
) -> Iterator[tuple[Fields, _T]]:
    """Yield the readable objects of a kind, and note the names of the others."""
    for item in cluster.found[kind]:
        try:
            yield item, read(item)
        except InputError as error:
            cluster.notes.append(f"{kind} {_called(item)} is left out ({error}): {meaning}")


def _called(item: Fields) -> str:
    """Return namespace and name of an object, or "without a name"."""
    try:
        meta = meta_of(item)
        space = f"{meta.text('namespace')}/" if meta.has("namespace") else ""
        return space + (meta.text("name") if meta.has("name") else "without a name")
    except InputError:
        return "without a name"


def _read_queues(cluster: KueueObjects) -> None:
    """Read cluster queues, local queues, flavors, cohorts and topologies."""
    notes, queues = cluster.notes, cluster.queues
    of_queues = "its workloads wait"
    for _, queue in _each(cluster, "ClusterQueue", read_queue, of_queues):
        queues.queues[queue.name] = queue
        notes += [f"cluster queue {queue.name} has {one}" for one in queue.more]
    for _, (name, local) in _each(cluster, "LocalQueue", read_local_queue, of_queues):
        queues.local[name] = local
    for _, flavor in _each(cluster, "ResourceFlavor", read_flavor, "its queues are inactive"):
        queues.flavors[flavor.name] = flavor
    for _, cohort in _each(cluster, "Cohort", read_cohort, "it is taken to have no quota"):
        queues.cohorts[cohort.name] = cohort
    for item, levels in _each(cluster, "Topology", _levels, "its levels are not known"):
        cluster.levels[name_of(item)] = levels
    for item, labels in _each(cluster, "Namespace", _labels, "its labels are not known"):
        cluster.spaces[name_of(item)] = labels


def _read_nodes(cluster: KueueObjects) -> None:
    """Read nodes and the pods on them."""
    for item, node in _each(cluster, "Node", read_node, "its GPUs are not offered"):
        if node is not None:
            cluster.nodes[node.name] = node
        elif shares := sold_in_shares(item):
            words = f"node {_called(item)} sells shares of GPUs ({shares}): not offered"
            cluster.notes.append(words)
    for _, pod in _each(cluster, "Pod", read_held_pod, "its GPUs count as free"):
        if pod is not None:
            cluster.pods.append(pod)


def _read_workloads(cluster: KueueObjects) -> None:
    """Read workloads with their priority classes."""
    classes: dict[str, int] = {}
    for kind in ("PriorityClass", "WorkloadPriorityClass"):
        for item, value in _each(cluster, kind, _class_of, "its workloads have priority 0"):
            classes[name_of(item)] = value
    cluster.now_s = latest_of([*cluster.found["Workload"], *cluster.found["Node"]])
    for item in cluster.found["Workload"]:
        _read_one(cluster, item, classes)
    first: dict[str, Asked] = {}
    twice = [one.name for one in cluster.asked if first.setdefault(one.name, one) is not one]
    if twice:
        cluster.notes.append(f"{some(twice)}: listed more than once, the first counts")
        cluster.asked = list(first.values())


def _read_one(cluster: KueueObjects, item: Fields, classes: dict[str, int]) -> None:
    """Read a workload; the admission of an unreadable one still counts."""
    try:
        if is_over(item):
            cluster.passed_over[_called(item)] = "has finished"
            return
        asked = read_workload(item, cluster.now_s, classes)
        if (admitted := asked.admission) is not None:
            admitted = replace(admitted, usage=_in_slots(cluster, admitted))
        cluster.asked.append(replace(asked, admission=admitted))
    except InputError as error:
        kept = "it is not started, and what it may hold is not counted"
        try:
            if (admitted := admission_of(item)) is not None:
                for slot, amount in _in_slots(cluster, admitted).items():
                    cluster.used[admitted.queue, slot] += amount
                kept = "its quota is counted, its GPUs are not"
        except InputError:
            pass
        cluster.notes.append(f"Workload {_called(item)} is left out ({error}): {kept}")
        cluster.passed_over[_called(item)] = f"is left out ({error}): {kept}"


def _in_slots(cluster: KueueObjects, admitted: Admission) -> dict[Slot, float]:
    """Return usage by flavor and resource, by default of the queue's first flavor."""
    queue = cluster.queues.queues.get(admitted.queue)
    found: dict[Slot, float] = defaultdict(float)
    for (flavor, resource), amount in admitted.usage.items():
        group = queue.group_of(resource) if queue is not None and not flavor else None
        found[group.flavors[0] if group is not None else flavor, resource] += amount
    return dict(found)


def _levels(item: Fields) -> tuple[str, ...]:
    spec = item.object("spec", None)
    return tuple(one.text("nodeLabel") for one in spec.objects("levels", None))


def _labels(item: Fields) -> dict[str, str]:
    name_of(item)
    return meta_of(item).by_name("labels")


def _class_of(item: Fields) -> int:
    name_of(item)
    return class_value(item)
