"""Nodes and pods of Kubernetes as values, with our annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from morph_opt.core.documents import Fields
from morph_opt.inputs.kueue.kube import (
    gpus_in,
    instant_of,
    is_ready,
    meta_of,
    name_of,
    quantity_of,
    requests_of,
    shares_of_node,
    taints_of,
    tolerates,
    tolerations_of,
)

GATE = "morph-opt.dev/round"
SAYS, STATE, PLAN = "morph-opt.dev/job", "morph-opt.dev/state", "morph-opt.dev/gpus"
"""Annotations with the user's statements on a Job, our last action, and a pod's GPUs."""
STARTED, STOPPED = "started@", "stopped@"
HOST = "kubernetes.io/hostname"
PRODUCT = "nvidia.com/gpu.product"
Needs = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Host:
    """Node with GPUs.

    Parameters
    ----------
    name, label
        Its name, and what a pod selects it by.
    kind, gpus, room
        Type and number of GPUs, and all that it has.
    labels, taints
        Labels, and the taints that keep pods away: key, value, effect.
    open, silent
        Whether something may start there, and whether it does not respond.
    """

    name: str
    label: str
    kind: str
    gpus: int
    room: Needs
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    open: bool
    silent: bool


@dataclass(frozen=True, slots=True)
class Pod:
    """Pod that has not ended.

    Parameters
    ----------
    namespace, name, uid, version, owner
        Version as of the look; owner is the uid of its controller.
    node, bound_s
        Node, "" if there is none, and the instant since when it is there.
    gates
        Gates that keep it from the scheduler.
    needs, gpus
        Requested resources of a node, and the number of GPUs.
    selector, tolerations, own
        Conditions on its node: labels, tolerated taints, and the first other one, or "".
    leaving
        Whether it is being deleted.
    state, plan
        Our annotations.
    """

    namespace: str
    name: str
    uid: str
    version: str
    owner: str
    node: str
    bound_s: float
    gates: tuple[str, ...]
    needs: Needs
    gpus: int
    selector: Mapping[str, str]
    tolerations: tuple[tuple[str, str, str, str], ...]
    own: str
    leaving: bool
    state: str
    plan: str

    @property
    def gated(self) -> bool:
        """Whether it waits at our gate."""
        return GATE in self.gates

    @property
    def let_go_s(self) -> float | None:
        """Instant at which we released the pod; None if we did not."""
        at = self.state.removeprefix(STARTED)
        return float(at) if at != self.state and at.isdigit() else None

    def fits(self, host: Host) -> bool:
        """Return whether the pod may be on a node."""
        return self.selector.items() <= host.labels.items() and all(
            tolerates(self.tolerations, taint) for taint in host.taints
        )


def read_hosts(row: Fields) -> Iterator[Host]:
    """Yield the node if it has GPUs and a host label that pods can select."""
    meta, spec = meta_of(row), row.object("spec", None, {})
    status = row.object("status", None, {})
    table = status.object("allocatable", None, {})
    room = {key: quantity_of(table, key) for key in table}
    labels = meta.value("labels", dict[str, str], {})
    gpus = _gpus(room)
    if not gpus or HOST not in labels:
        return
    taints = taints_of(spec)
    ready = is_ready(row)
    notes = meta.value("annotations", dict[str, str], {}) if meta.has("annotations") else {}
    # What such a node counts as GPUs are shares of some: nothing is started on them.
    shared = bool(shares_of_node(labels, notes)) or len(gpus_in(room)) > 1
    closed = not ready or shared or spec.flag("unschedulable", False)
    yield Host(
        name_of(row),
        labels[HOST],
        labels.get(PRODUCT, ""),
        gpus,
        room,
        labels,
        taints,
        not closed,
        not ready,
    )


def _gpus(needs: Needs) -> int:
    """Return the number of whole GPUs of every vendor, without shares of GPUs."""
    return round(sum(needs[key] for key in gpus_in(needs)))


def owners_of(row: Fields) -> list[str]:
    """Return the uids of the controllers of an object: one or none."""
    return [
        one.text("uid")
        for one in row.object("metadata", None, {}).objects("ownerReferences", None, [])
        if one.flag("controller", False)
    ]


def read_pod(row: Fields, spec: Fields | None = None) -> Pod:
    """Read a pod, or the template of a Job's pods."""
    meta = row.object("metadata", None, {})
    spec = row.object("spec", None) if spec is None else spec
    owners = owners_of(row)
    notes = meta.value("annotations", dict[str, str], {})
    bound = [
        instant_of(one, "lastTransitionTime")
        for one in row.object("status", None, {}).objects("conditions", None, [])
        if (one.text("type"), one.text("status")) == ("PodScheduled", "True")
    ]
    needs = requests_of(spec)
    selector = spec.value("nodeSelector", dict[str, str], {})
    own = next(
        (
            f"{word} of its own"
            for word in ("affinity", "topologySpreadConstraints", "resourceClaims")
            if spec.has(word) and spec.raw(word)
        ),
        "",
    )
    if spec.text("schedulerName", "default-scheduler") != "default-scheduler":
        own = "another scheduler"
    tolerations = tolerations_of(spec)
    return Pod(
        meta.text("namespace", ""),
        meta.text("name", ""),
        meta.text("uid", ""),
        meta.text("resourceVersion", ""),
        owners[0] if owners else "",
        spec.text("nodeName", ""),
        bound[0] if bound else 0.0,
        tuple(one.text("name") for one in spec.objects("schedulingGates", None, [])),
        needs,
        _gpus(needs),
        selector,
        tolerations,
        own,
        meta.has("deletionTimestamp"),
        notes.get(STATE, ""),
        notes.get(PLAN, ""),
    )
