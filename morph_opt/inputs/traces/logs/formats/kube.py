"""GPUs and times of Kubernetes objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
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
from morph_opt.inputs.traces.logs.reading.records import (
    Record,
    first_member,
    json_record,
    json_stream,
)
from morph_opt.inputs.traces.logs.reading.row import Gpus

GPU = "nvidia.com/gpu"
_SLICES = "nvidia.com/mig-"
_SHARES = re.compile(
    r"nvidia\.com/(gpu\.shared|gpumem.*|gpucores|vgpu.*|grid_.*)|[^/]+/v(gpu|cuda)[-.a-z]*"
    r"|[^/]+/gpu[-.]?(mem|memory|core|cores|share|shared|percentage|milli).*",
    re.IGNORECASE,
)
"""Resources that are shares of GPUs: time slices, memory, cores, virtual GPUs."""
_UNITS = {None: Fraction(1), "m": Fraction(1, 1000), "k": Fraction(1000)}
_QUANTITY = re.compile(r"([0-9]{1,12})(m|k)?", re.ASCII)


@dataclass(slots=True)
class Demand:
    """Requested GPUs: whole ones, slices, and whether there are shares or resource claims."""

    gpus: Gpus = 0
    slices: Gpus = 0
    shares: bool = False
    claims: bool = False

    def add(self, other: Demand, times: int = 1) -> None:
        """Add another demand ``times`` times."""
        self.gpus = whole_if(Fraction(self.gpus + times * other.gpus))
        self.slices = whole_if(Fraction(self.slices + times * other.slices))
        self.shares |= other.shares and times > 0
        self.claims |= other.claims and times > 0

    @classmethod
    def most(cls, demands: Iterable[Demand]) -> Demand:
        """Keep the larger of both demands, kind by kind."""
        listed = list(demands)
        return cls(
            max((one.gpus for one in listed), default=0),
            max((one.slices for one in listed), default=0),
            any(one.shares for one in listed),
            any(one.claims for one in listed),
        )


def quantity(fields: Fields, name: str) -> Gpus:
    """Return the number of a quantity: a number, or text like ``8``, ``500m``, ``1k``."""
    value = fields.raw(name)
    found = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool | float) else None
    if found is None:
        raise fields.error(name, f"must be a quantity like 8 or 500m, got {kind_of(value)}")
    amount = int(found[1]) * _UNITS[found[2]]
    if amount > MOST_GPUS:
        raise fields.error(name, f"must be at most {MOST_GPUS}")
    return whole_if(amount)


def _identity(record: Record) -> object:
    """Return namespace and name of an object; its line if it has none."""
    if not isinstance(record.content, Fields):
        return record.line
    meta = record.content.raw("metadata")
    names = (meta.get("namespace"), meta.get("name")) if isinstance(meta, dict) else ()
    return names if any(names) else record.line


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

    def records(self) -> Iterator[Record]:
        """Yield the objects of a list, of one document, or of a stream of documents.

        A stream (``kubectl get -w``) has an object once for each of its states: the last counts.
        """
        if first_member(self.path, frozenset(("items", "spec"))) != "spec":
            yield from super().records()
            return
        last: dict[object, Record] = {}
        for line, text in json_stream(self.path):
            record = json_record(self.path, line, text, self.required)
            last[_identity(record)] = record
        yield from last.values()

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
            elif _SHARES.fullmatch(name) and table.raw(name) not in (0, "0"):
                found.shares = True
        return found

    def of_pod(self, template: Fields) -> Demand:
        """Return the demand of a pod: its containers together, or the largest init container."""
        spec = template.object("spec", None)
        together = Demand(claims=spec.has("resourceClaims") and bool(spec.raw("resourceClaims")))
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
        merged: dict[str, object] = {}
        for table in (resources.part("limits"), resources.part("requests")):
            merged |= {name: table.raw(name) for name in table}
        return self.amounts(Fields(merged, resources.at("requests"), str(self.path), None))

    def name_in(self, metadata: Fields) -> str:
        """Return namespace and name."""
        space, name = metadata.text("namespace", ""), metadata.text("name")
        return f"{space}/{name}" if space else name

    def judge(self, demand: Demand) -> None:
        """Note why a demand cannot be replayed."""
        if demand.slices and not demand.gpus:
            self.reasons.append("mig-slice")
        if demand.shares:
            self.reasons.append("fractional-gpu")
        if demand.claims and not demand.gpus:
            self.reasons.append("resource-claims")
