"""Objects of the Kubernetes API: names, times, amounts, labels, taints, and nodes with GPUs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from morph_opt.core.documents import Fields
from morph_opt.core.domain.cluster import MOST_GPUS_PER_NODE

Taint = tuple[str, str, str]
"""Key, value and effect."""

Toleration = tuple[str, str, str, str]
"""Key, operator, value and effect."""

Expression = tuple[str, str, tuple[str, ...]]
"""Key, operator and values of a condition on labels."""

OBJECT_CHARACTERS = 4_000_000
"""Largest number of characters of a string in an object of Kubernetes, of 2 MiB at most."""

BARRING = frozenset(("NoSchedule", "NoExecute"))
"""Effects of taints that keep pods from a node."""


def meta_of(item: Fields) -> Fields:
    """Return the metadata of an object."""
    return item.object("metadata", None)


def name_of(item: Fields) -> str:
    """Return the name of an object."""
    return meta_of(item).text("name")


def name_in_space(item: Fields) -> str:
    """Return namespace and name of an object."""
    meta = meta_of(item)
    return f"{meta.text('namespace', 'default')}/{meta.text('name')}"


def class_value(item: Fields) -> int:
    """Return the value of a priority class."""
    return item.whole("value", 0, least=-(2**31), most=2**31)


def is_ready(node: Fields) -> bool:
    """Return whether a node is ready; a node without that condition counts as ready."""
    status = node.object("status", None, {})
    return all(
        condition.text("status") == "True"
        for condition in status.objects("conditions", None, [])
        if condition.text("type") == "Ready"
    )


def conditions_of(item: Fields) -> dict[str, Fields]:
    """Return the conditions of an object by type."""
    return {one.text("type"): one for one in item.part("status").parts("conditions")}


def true_of(conditions: Mapping[str, Fields]) -> dict[str, Fields]:
    """Return the conditions that are true, by type."""
    return {kind: one for kind, one in conditions.items() if one.text("status") == "True"}


_SCALES: dict[str, float] = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0} | {
    prefix + unit: base**power
    for base, unit in ((1000.0, ""), (1024.0, "i"))
    for power, prefix in enumerate(("k" if not unit else "K", *"MGTPE"), 1)
}
_QUANTITY = re.compile(r"([0-9.]{1,30}(?:[eE][0-9]{1,2})?)([a-zA-Z]{0,2})", re.ASCII)


def quantity_of(table: Fields, name: str) -> float:
    """Read the amount of a resource: a number, or text like ``8``, ``500m`` or ``16Gi``."""
    found = _QUANTITY.fullmatch(str(table.raw(name)))
    if found is None or found[2] not in _SCALES or found[1].count(".") > 1 or found[1] == ".":
        raise table.error(name, "must be a quantity like 8, 500m or 16Gi")
    return float(found[1]) * _SCALES[found[2]]


def requests_of(spec: Fields) -> dict[str, float]:
    """Return the requests of a pod by resource; limits count where requests are missing."""
    both: Counter[str] = Counter({"pods": 1.0})
    first: dict[str, float] = {}
    for kind in ("containers", "initContainers"):
        for container in spec.objects(kind, None, []):
            resources = container.object("resources", None, {})
            asked: dict[str, float] = {}
            for words in ("limits", "requests"):
                table = resources.object(words, None, {})
                asked |= {key: quantity_of(table, key) for key in table}
            # An init container that goes on beside the others adds to them; another ends before.
            if kind == "containers" or container.text("restartPolicy", "") == "Always":
                both.update(asked)
            else:
                first |= {key: max(first.get(key, 0.0), value) for key, value in asked.items()}
    more = spec.object("overhead", None, {})  # of the runtime of its containers
    found = {key: max(both[key], first.get(key, 0.0)) for key in both | first}
    return found | {key: found.get(key, 0.0) + quantity_of(more, key) for key in more}


_BYTES = frozenset(("memory", "ephemeral-storage"))


def amount_text(resource: str, amount: float) -> str:
    """Return an amount of a resource, bytes in the largest unit up to Gi."""
    if resource not in _BYTES:
        return f"{amount:g}"
    size, unit = next(
        (
            (size, unit)
            for size, unit in ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
            if amount >= size
        ),
        (1, ""),
    )
    return f"{amount / size:.4g}{unit}"


def priority_of(spec: Fields, classes: Mapping[str, int]) -> tuple[int, str]:
    """Return the priority of a workload, and the name of its class if no file has the class.

    Parameters
    ----------
    spec
        Part of the object.
    classes
        Values of priority classes by name; the priority is 0 for other classes.
    """
    if spec.has("priority"):
        return spec.whole("priority", 0, least=-(2**31), most=2**31), ""
    name = spec.word("priorityClassName")
    if spec.has("priorityClassRef"):
        name = spec.object("priorityClassRef", None).text("name", "")
    return classes.get(name, 0), "" if name in classes else name


def instant_of(row: Fields, name: str) -> float:
    """Read an instant, in seconds."""
    text = row.text(name)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise row.error(name, f"must be a time like 2026-01-02T03:04:05Z, got {text[:40]!r}")
    return max(0.0, found.timestamp())


def taints_of(spec: Fields, name: str = "taints") -> tuple[Taint, ...]:
    """Return the taints that keep pods away."""
    return tuple(
        (one.text("key", ""), one.text("value", ""), one.text("effect", ""))
        for one in spec.parts(name)
        if one.text("effect", "") in BARRING
    )


def tolerations_of(spec: Fields) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod or a flavor."""
    return tuple(
        (
            one.text("key", ""),
            one.text("operator", "Equal"),
            one.text("value", ""),
            one.text("effect", ""),
        )
        for one in spec.parts("tolerations")
    )


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether one of the tolerations matches the taint, by the rules of Kubernetes."""
    for key, operator, value, effect in tolerations:
        same = key == taint[0] or (not key and operator == "Exists")
        if same and effect in ("", taint[2]) and (operator == "Exists" or value == taint[1]):
            return True
    return False


def expressions_of(selector: Fields, name: str = "matchExpressions") -> tuple[Expression, ...]:
    """Return the conditions of a selector, including its ``matchLabels``."""
    found: list[Expression] = [
        (key, "In", (value,)) for key, value in selector.by_name("matchLabels").items()
    ]
    for one in selector.parts(name):
        values = one.value("values", tuple[str, ...]) if one.has("values") else ()
        found.append((one.text("key"), one.text("operator"), values))
    return tuple(found)


def holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a condition; False if its operator is unknown."""
    key, operator, values = expression
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator not in ("Gt", "Lt") or value is None or len(values) != 1:
        return False
    try:
        here, limit = int(value), int(values[0])
    except ValueError:
        return False
    return here > limit if operator == "Gt" else here < limit


def node_terms(spec: Fields) -> tuple[tuple[Expression, ...], ...] | None:
    """Return the alternative terms of required node affinity; None if there are none."""
    word = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = spec.part("affinity").part("nodeAffinity")
    if not affinity.has(word):
        return None
    return tuple(
        (
            *expressions_of(term),
            *(one for one in expressions_of(term, "matchFields") if one[0] == NODE_NAME),
        )
        for term in affinity.part(word).objects("nodeSelectorTerms", None, [])
    )


NODE_NAME = "metadata.name"
"""Field of a node that affinity may refer to like a label."""


NVIDIA = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"

_WHOLE = re.compile(
    r"[^/]+/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|huawei\.com/Ascend[0-9A-Za-z]*"
    r"|cambricon\.com/mlu|google\.com/tpu|aws\.amazon\.com/neuron(device)?"
)
_SHARE = re.compile(
    r"nvidia\.com/(gpu\.shared|mig-.+|gpumem.*|gpucores|vgpu.*|grid_.*)"
    r"|[^/]+/gpu[-.]?(mem|memory|cores?|share|shared|percentage|core|milli).*"
    r"|[^/]+/v(gpu|cuda)[-.a-z]*|huawei\.com/Ascend[0-9A-Za-z]*-(memory|core)|.+/.+\.shared",
    re.IGNORECASE,
)


def is_share(resource: str) -> bool:
    """Return whether a resource is a share of GPUs: time slices, memory, cores, MIG, vGPU."""
    return _SHARE.fullmatch(resource) is not None


def is_gpu(resource: str) -> bool:
    """Return whether a resource counts whole GPUs, of whatever vendor."""
    return _WHOLE.fullmatch(resource) is not None and not is_share(resource)


def gpus_in(resources: Iterable[str]) -> list[str]:
    """Return the resources that count whole GPUs, in order."""
    return [name for name in resources if is_gpu(name)]


def shares_of_node(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Return how a node offers shares as whole GPUs; "" if it does not.

    The labels are those of NVIDIA's GPU feature discovery, the annotation is HAMi's.
    """
    replicas = labels.get("nvidia.com/gpu.replicas", "")
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "none")
    slices = labels.get("nvidia.com/gpu.slices.gi", "0")
    product = labels.get(PRODUCT, "")
    if strategy not in ("", "none"):
        return strategy
    if product.endswith("-SHARED") or (replicas.isdigit() and int(replicas) > 1):
        return "time-slicing"
    if labels.get("nvidia.com/mps.capable") == "true":
        return "mps"
    single = labels.get("nvidia.com/mig.strategy") == "single"
    if "-MIG-" in product or (single and slices not in ("", "0")):
        return "MIG"
    if labels.get("nvidia.com/vgpu.present") == "true":
        return "vGPU"
    hami = (one for one in annotations if one.startswith("hami.io/node-") and "register" in one)
    return "HAMi" if any(hami) else ""


def physical_gpus(labels: Mapping[str, str], counted: int) -> int:
    """Return the number of physical GPUs of a node that offers shares."""
    count = labels.get("nvidia.com/gpu.count", "")
    return int(count) if count.isdigit() and 0 < int(count) <= counted else counted


HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class KubeNode:
    """A node with GPUs.

    Parameters
    ----------
    name, labels, taints
        Its name and labels, and taints that keep pods away.
    kind, resource, gpus
        Type of its GPUs ("" if unknown), the resource that counts them, and their number.
    closed
        Why nothing may start there; "" if it is open.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    kind: str
    resource: str
    gpus: int
    closed: str


def read_node(item: Fields) -> KubeNode | None:
    """Read a node; None for one without whole GPUs."""
    status, spec = item.part("status"), item.part("spec")
    table = status.part("allocatable" if status.has("allocatable") else "capacity")
    counts: dict[str, int] = {}
    for key in gpus_in(table):
        value = quantity_of(table, key)
        if value != int(value):
            raise table.error(key, f"must be a whole number, got {value:g}")
        if value:
            counts[key] = int(value)
    if not counts:
        return None
    gpus = sum(counts.values())
    meta = meta_of(item)
    labels = meta.by_name("labels")
    shared = shares_of_node(labels, meta.by_name("annotations"))
    if shared:
        gpus = physical_gpus(labels, gpus)
    if gpus > MOST_GPUS_PER_NODE:
        raise table.error(None, f"must be at most {MOST_GPUS_PER_NODE} GPUs, got {gpus}")
    closed = ""
    if shared:
        closed = f"sells shares of GPUs: {shared}"
    elif len(counts) > 1:
        closed = f"has GPUs of several kinds: {', '.join(counts)}"
    elif not is_ready(item):
        closed = "is not ready"
    elif spec.has("unschedulable") and spec.flag("unschedulable"):
        closed = "is cordoned"
    resource = next(iter(counts))
    kind = labels.get(PRODUCT if resource == NVIDIA else f"{resource}.product", "")
    if not kind and resource != NVIDIA:
        kind = resource.partition("/")[0] if resource.endswith("/gpu") else resource
    return KubeNode(name_of(item), labels, taints_of(spec), kind, resource, gpus, closed)


def sold_in_shares(item: Fields) -> str:
    """Return the resources through which a node offers shares of GPUs; "" if there are none."""
    table = item.part("status").part("allocatable")
    return ", ".join(key for key in table if is_share(key) and quantity_of(table, key))
