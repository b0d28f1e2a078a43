"""Attributes of a cluster's graph: their names, aliases and units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from formulations.resources import SIDES
from morph_opt.core.documents.structure import unknown_field
from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import own_value, shown

_PER_S = "_per_s"
_RATES = {"gb_per_s": 1.0, "gbit_per_s": 1.0 / 8.0}
"""Ends of the names of bandwidths, with gigabytes (1e9) of their unit."""
_UNIT = re.compile(r"([0-9.eE+-]+)\s*([kMGT])(B/s|Bps|bit/s|b/s|bps)")
_SCALE = {"k": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}

ALIASES = {
    "gpus": ("gpu_count", "num_gpus"),
    "gpu_type": ("gpu",),
    "type": ("node_type",),
    "cpus": ("cpu_threads",),
}
"""Other names of attributes."""
AMOUNTS = tuple(one.field for one in SIDES if not one.field.endswith(_PER_S))
NODE_RATES = ("nvlink", *(one.field.removesuffix("_gb_per_s") for one in SIDES if one.uplink))
GPU = ("gpu_memory_gib", "gpu_price_per_hour")
FOR_PEOPLE = (
    "label", "description", "comment", "url", "x", "y", "z", "pos", "color", "colour", "shape",
    "shape_type", "size", "width", "height", "id", "key",
)  # fmt: skip
"""Attributes that are ignored, for drawings and file formats; so are all that begin with
``note``."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """Attributes of a vertex or an edge of a graph that a user gives.

    Parameters
    ----------
    where
        Path of the vertex or edge in errors, such as ``nodes[n0]``.
    given
        As the graph has them.
    """

    where: str
    given: Mapping[str, Any]

    def error(self, name: str | None, rule: str) -> InputError:
        """Return an error about an attribute, or about the vertex or edge for None."""
        return InputError(rule, field=f"{self.where}.{name}" if name else self.where)

    def require_known(self, known: Iterable[str]) -> None:
        """Refuse attributes other than these, their aliases, and those `FOR_PEOPLE`.

        Raises
        ------
        InputError
            Naming the attribute.
        """
        names = [*known]
        names += [alias for name in names for alias in ALIASES.get(name, ())]
        for name in self.given:
            text = str(name)
            if text not in names and text not in FOR_PEOPLE and not text.startswith("note"):
                rule = f"{unknown_field(text, tuple(names))}; begin its name with note to keep it"
                raise self.error(text, rule)

    def find(self, name: str) -> tuple[str, Any]:
        """Return the name by which an attribute is given, and its value; None if it is not given.

        Raises
        ------
        InputError
            If it is given under two names.
        """
        found = [one for one in (name, *ALIASES.get(name, ())) if self.has(one)]
        if len(found) > 1:
            raise self.error(found[1], f"is given as {found[0]} too")
        return (found[0], own_value(self.given[found[0]])) if found else (name, None)

    def has(self, name: str) -> bool:
        """Return whether an attribute is given under exactly this name; empty text is not."""
        return self.given.get(name) not in (None, "")

    def text(self, name: str) -> str | None:
        """Return an attribute that is text; None if it is not given.

        Raises
        ------
        InputError
            If it is another value than text or a whole number, which is replaced by its digits.
        """
        found, value = self.find(name)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        raise self.error(found, f"must be text, got {shown(value)}")

    def number(self, name: str) -> float | None:
        """Return an attribute that is a number or the text of one; None if it is not given.

        Raises
        ------
        InputError
            If it is another value.
        """
        found, value = self.find(name)
        return None if value is None else self._number(found, value)

    def _number(self, name: str, value: Any) -> float:
        try:
            if isinstance(value, str):
                value = int(value) if value.strip().lstrip("+-").isdecimal() else float(value)
            if isinstance(value, int | float) and type(value) is not bool and math.isfinite(value):
                return value
        except (TypeError, ValueError, OverflowError):
            pass
        raise self.error(name, f"must be a finite number, got {shown(value)}")

    def whole(self, name: str) -> float | None:
        """Return a number that may be written ``8.0``, as formats without whole numbers do."""
        value = self.number(name)
        return value if value is None or not float(value).is_integer() else int(value)

    def rate_gb_per_s(self, stem: str = "") -> float | None:
        """Return a bandwidth in gigabytes (1e9) per second; None if it is not given.

        ``gb_per_s``, ``gbit_per_s`` or ``bandwidth``, which is text with a unit (``400 Gbit/s``);
        after the stem, if there is one.

        Raises
        ------
        InputError
            If it is no number above 0, has no unit, or is given twice.
        """
        stem = f"{stem}_" if stem else ""
        names = [stem + name for name in (*_RATES, "bandwidth") if self.has(stem + name)]
        if not names:
            return None
        if len(names) > 1:
            raise self.error(names[1], f"is given as {names[0]} too")
        (name,), value = names, own_value(self.given[names[0]])
        scaled = _with_unit(value) if isinstance(value, str) else None
        if scaled is None and name.endswith("bandwidth"):
            rule = f"must have a unit, such as '400 Gbit/s' or '50 GB/s', got {shown(value)}"
            raise self.error(name, rule)
        rate = self._number(name, value if scaled is None else scaled[0])
        rate *= _RATES[name.removeprefix(stem)] if scaled is None else scaled[1]
        if not 0.0 < rate < math.inf:
            raise self.error(name, f"must be a finite number above 0, got {shown(value)}")
        return rate

    @staticmethod
    def rates(stem: str = "") -> tuple[str, ...]:
        """Return the names that `rate_gb_per_s` reads."""
        return tuple(f"{stem}_{name}" if stem else name for name in (*_RATES, "bandwidth"))


def _with_unit(text: str) -> tuple[str, float] | None:
    """Return the number of a bandwidth with a unit, as text, and the gigabytes of the unit."""
    found = _UNIT.fullmatch(text.strip())
    if found is None:
        return None
    number, prefix, unit = found.groups()
    return number, _SCALE[prefix] * (1.0 if unit.startswith("B") else 1.0 / 8.0)


def words(values: Iterable[object], most: int = 4) -> str:
    """Return a few names as text: ``a, b and 3 more``."""
    names = [str(value) for value in values]
    if len(names) <= most:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
