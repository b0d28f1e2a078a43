"""What objects of the Kubernetes API say: names, times, amounts."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

from morph_opt.core.documents import Fields


def meta_of(item: Fields) -> Fields:
    """Its metadata."""
    return item.object("metadata", None)


def name_of(item: Fields) -> str:
    """Its name."""
    return meta_of(item).text("name")


def is_ready(node: Fields) -> bool:
    """Whether a node says that it is, or says nothing of it."""
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
    """An amount of a resource: a number, or text like ``8``, ``500m`` or ``16Gi``."""
    found = _QUANTITY.fullmatch(str(table.raw(name)))
    if found is None or found[2] not in _SCALES or found[1].count(".") > 1 or found[1] == ".":
        raise table.error(name, "must be a quantity like 8, 500m or 16Gi")
    return float(found[1]) * _SCALES[found[2]]


def requests_of(spec: Fields) -> dict[str, float]:
    """What a pod asks of a node; limits stand where requests are missing, as they do there."""
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
    """A time in seconds."""
    text = row.text(name)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise row.error(name, f"must be a time like 2026-01-02T03:04:05Z, got {text[:40]!r}")
    return max(0.0, found.timestamp())
