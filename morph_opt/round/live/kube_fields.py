"""Fields of objects of the Kubernetes API: names, times, amounts, labels, taints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from morph_opt.core.documents import Fields

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


def is_ready(node: Fields) -> bool:
    """Return whether a node is ready, as one without that condition is."""
    status = node.object("status", None, {})
    return all(
        condition.text("status") == "True"
        for condition in status.objects("conditions", None, [])
        if condition.text("type") == "Ready"
    )


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


def labels_of(meta: Fields) -> dict[str, str]:
    """Return the labels of an object."""
    return meta.value("labels", dict[str, str], {}) if meta.has("labels") else {}


def taints_of(spec: Fields, name: str = "taints") -> tuple[Taint, ...]:
    """Return the taints that keep pods away."""
    return tuple(
        (one.text("key", ""), one.text("value", ""), one.text("effect", ""))
        for one in _listed(spec, name)
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
        for one in _listed(spec, "tolerations")
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
        (key, "In", (value,))
        for key, value in (
            selector.value("matchLabels", dict[str, str], {}).items()
            if selector.has("matchLabels")
            else ()
        )
    ]
    for one in _listed(selector, name):
        values = one.value("values", tuple[str, ...], ()) if one.has("values") else ()
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
    if not spec.has("affinity") or not spec.object("affinity", None).has("nodeAffinity"):
        return None
    word = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = spec.object("affinity", None).object("nodeAffinity", None)
    if not affinity.has(word):
        return None
    terms = affinity.object(word, None).objects("nodeSelectorTerms", None, [])
    return tuple(
        (
            *expressions_of(term),
            *(one for one in expressions_of(term, "matchFields") if one[0] == _NAME),
        )
        for term in terms
    )


_NAME = "metadata.name"


def with_name(labels: Mapping[str, str], name: str) -> dict[str, str]:
    """Return labels of a node with its name added, as affinity may refer to it."""
    return {**labels, _NAME: name}


def _listed(table: Fields, name: str) -> list[Fields]:
    """Return a list of objects; empty if it is missing or null."""
    return table.objects(name, None) if table.has(name) else []
