"""GPUs and times of Kubernetes objects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from morph_opt.core.documents import Fields, kind_of
from morph_opt.inputs.traces.logs.reading.reader import (
    MOST_GPUS,
    Head,
    JsonReader,
    fields_of,
    whole_if,
)
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.row import Gpus

GPU = "nvidia.com/gpu"
_SLICES = "nvidia.com/mig-"
_QUANTITY = re.compile(r"([0-9]{1,12})(m|k)?", re.ASCII)


@dataclass(slots=True)
class Demand:
    """Requested GPUs: whole ones, and slices."""

    gpus: Gpus = 0
    slices: Gpus = 0

    def add(self, other: Demand, times: int = 1) -> None:
        """Add another demand ``times`` times."""
        self.gpus = whole_if(Fraction(self.gpus + times * other.gpus))
        self.slices = whole_if(Fraction(self.slices + times * other.slices))

    @classmethod
    def most(cls, demands: Iterable[Demand]) -> Demand:
        """Keep the larger of both demands, kind by kind."""
        listed = list(demands)
        return cls(
            max((one.gpus for one in listed), default=0),
            max((one.slices for one in listed), default=0),
        )


def quantity(fields: Fields, name: str) -> Gpus:
    """Return the number of a quantity: a number, or text like ``8``, ``500m``, ``1k``."""
    value = fields.raw(name)
    found = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool | float) else None
    if found is None:
        raise fields.error(name, f"must be a quantity like 8 or 500m, got {kind_of(value)}")
    amount = Fraction(
        int(found[1]) * (1000 if found[2] == "k" else 1), 1000 if found[2] == "m" else 1
    )
    if amount > MOST_GPUS:
        raise fields.error(name, f"must be at most {MOST_GPUS}")
    return whole_if(amount)


class KubeReader(JsonReader):
    """Reader of a list that ``kubectl get ... -o json`` prints."""

    zone = "UTC"
    options = ("gpu_resource",)
    items = "items"
    required = ("metadata", "spec")
    api_group: ClassVar[str]
    """API group of the objects, without a version."""
    api_kind: ClassVar[str]

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Recognise the format by the kind of the first element."""
        group, _, _ = str(head.entry.get("apiVersion", "")).rpartition("/")
        return {} if (group, head.entry.get("kind")) == (cls.api_group, cls.api_kind) else None

    @staticmethod
    def parts_of(record: Record) -> tuple[Fields, Fields, Fields]:
        """Return metadata, spec and status of an element."""
        fields = fields_of(record)
        metadata, spec = fields.object("metadata", None), fields.object("spec", None)
        return metadata, spec, fields.object("status", None, {})

    @property
    def resource(self) -> str:
        """Name of the resource that is a whole GPU."""
        return self.how.gpu_resource or GPU

    def amounts(self, table: Fields) -> Demand:
        """Return the GPUs among named quantities."""
        found = Demand()
        for name in table:
            if name == self.resource:
                found.add(Demand(quantity(table, name)))
            elif name.startswith(_SLICES):
                found.add(Demand(0, quantity(table, name)))
        return found

    def of_pod(self, template: Fields) -> Demand:
        """Return the demand of a pod: its containers together, or the largest init container."""
        spec = template.object("spec", None)
        together = Demand()
        for container in spec.objects("containers", None, []):
            together.add(self._of_container(container))
        before = []
        for container in spec.objects("initContainers", None, []):
            if container.raw("restartPolicy", None) == "Always":  # runs next to the others
                together.add(self._of_container(container))
            else:
                before.append(self._of_container(container))
        return Demand.most((together, *before))

    def asked(self, groups: Iterable[Fields], count: str) -> Demand:
        """Return the demand of groups of equal pods; ``count`` names the field of their number."""
        found = Demand()
        for pods in groups:
            found.add(self.of_pod(pods.object("template", None)), pods.whole(count, 1, least=0))
        return found

    def _of_container(self, container: Fields) -> Demand:
        """Return the requests of a container, or its limits if it has none."""
        resources = container.object("resources", None, {})
        merged = {
            name: table.raw(name)
            for part in ("limits", "requests")
            if resources.has(part)
            for table in (resources.object(part, None),)
            for name in table
        }
        return self.amounts(Fields(merged, resources.at("requests"), str(self.path), None))

    def name_in(self, metadata: Fields) -> str:
        """Return namespace and name."""
        space = metadata.text("namespace", "")
        name = metadata.text("name")
        return f"{space}/{name}" if space else name

    def judge(self, demand: Demand) -> None:
        """Note why a demand cannot be replayed."""
        if demand.slices and not demand.gpus:
            self.reasons.append("mig-slice")
