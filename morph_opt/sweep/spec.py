"""``sweep.toml``: what is fixed, what is varied, what is kept, what a cell may take."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from morph_opt.documents import Fields, key_lines, read_json, read_toml
from morph_opt.domain import InputError
from morph_opt.engine.config import ReplayConfig
from morph_opt.replay.scenario import Failures, Scenario, Scheduler, Workload
from morph_opt.replay.setup import require_scheduler
from morph_opt.sweep.cell import Cell
from morph_opt.sweep.order import RANGES, Limits

SCHEMA = "morph-opt/sweep/1"
_KEY = re.compile("[0-9a-f]{64}")
MOST_CELLS = 100_000
_TOP = ("fixed", "axes", "zip", "keep", "limits")
_PARTS: dict[str, type[Any]] = {
    "workload": Workload,
    "scheduler": Scheduler,
    "engine": ReplayConfig,
    "failures": Failures,
}
_DIGESTS = {"sha256", "state_sha256", "rules_sha256", "events_sha256"}
Value = str | int | float | bool
NAMES: tuple[str, ...] = (
    "cluster",
    "seed",
    *dict.fromkeys(
        f.name for kind in _PARTS.values() for f in fields(kind) if f.name not in _DIGESTS
    ),
    *(f"{part}.seed" for part in ("workload", "scheduler", "failures")),
)
"""What can be fixed or varied: every field of a scenario; ``seed`` is that of all parts."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A sweep.

    Parameters
    ----------
    fixed, axes
        Values by the names of `NAMES`; the cells are the product of the axes, first axis slowest.
    zip
        Axes that go along with each other, as groups of names.
    keep
        Files of each run that are kept next to its summary.
    limits
        Of each cell.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    zip: tuple[tuple[str, ...], ...] = ()
    keep: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def cells(self) -> list[Cell]:
        """All cells, in order.

        Raises
        ------
        InputError
            If a name is unknown, a value out of range, or zipped axes differ in length.
        """
        steps = self._steps()
        count = 1
        for step in steps:
            count *= len(step)
        if count > MOST_CELLS:
            raise InputError(f"has {count} cells, at most {MOST_CELLS}", field="axes")
        found = []
        for combination in itertools.product(*steps):
            axes = [pair for part in combination for pair in part]
            found.append(
                Cell(scenario_of({**self.fixed, **dict(axes)}), tuple(axes), self.keep)
            )  # fmt: skip
        return found

    def _steps(self) -> list[list[list[tuple[str, Value]]]]:
        """Per axis or group of axes the values of each step."""
        group_of = {name: group for group in self.zip for name in group}
        steps, seen = [], set()
        for name, values in self.axes.items():
            group = group_of.get(name, (name,))
            if group in seen:
                continue
            seen.add(group)
            for other in group:
                if other not in self.axes:
                    raise InputError(f"{other!r} is no axis", field="zip")
                if len(self.axes[other]) != len(values):
                    rule = f"must be as long as {name} ({len(values)}), its partner of zip"
                    raise InputError(rule, field=f"axes.{other}")
            steps.append(
                [[(other, self.axes[other][k]) for other in group] for k in range(len(values))]
            )
        return steps


def scenario_of(values: Mapping[str, Any]) -> Scenario:
    """The scenario with these values, by the names of `NAMES`.

    Raises
    ------
    InputError
        If a name is unknown or a value out of range or of another type.
    """
    for name in values:
        if name not in NAMES:
            raise InputError(f"unknown field; known are {', '.join(NAMES)}", field=name)
        _require_kind(name, values[name])
    plain = {k: v for k, v in values.items() if "." not in k and k != "cluster"}
    trace, state = plain.get("trace"), plain.get("state")
    cluster = values.get("cluster")
    begin = Scenario(trace, cluster, state=state)
    scenario = begin.replaced(**plain)
    for name, value in values.items():
        if "." in name:
            part, _, of_part = name.partition(".")
            changed = replace(getattr(scenario, part), **{of_part: value})
            scenario = scenario.replaced(**{part: changed})
    return scenario


_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "Mapping": (dict,),
}  # fmt: skip
_OF_FIELD = {f.name: str(f.type) for kind in _PARTS.values() for f in fields(kind)}


def _require_kind(name: str, value: object) -> None:
    """Refuse a value of another type than the field's."""
    plain = name.rpartition(".")[2]
    word = re.split(r"[ \[]", _OF_FIELD.get(plain, "str"))[0]
    kinds = _KINDS[word]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise InputError(f"must be {' or '.join(k.__name__ for k in kinds)}", field=name)


def read_spec(path: Path) -> Spec:
    """The sweep of a file; complaints name file, line, field.

    Raises
    ------
    InputError
        If it is none.
    """
    tables, text = read_toml(path)
    document = Fields(tables, "", str(path), _TOP, key_lines(text))
    fixed = document.object("fixed", NAMES, {})
    axes = document.object("axes", NAMES, {})
    taken = {name: _value(fixed, name) for name in fixed}
    varied: dict[str, list[Value]] = {}
    for name in axes:
        if name in taken:
            raise axes.error(name, "is fixed as well")
        varied[name] = axes.rows(name)
        if not varied[name]:
            raise axes.error(name, "has no values")
        if any(value in varied[name][:k] for k, value in enumerate(varied[name])):
            raise axes.error(name, "has a value twice")
    groups: list[tuple[str, ...]] = []
    for place, group in enumerate(document.rows("zip", [])):
        if not isinstance(group, list) or not all(isinstance(name, str) for name in group):
            raise document.error("zip", "must be lists of axes")
        if any(name in other for other in groups for name in group) or len(set(group)) < 2:
            raise document.error("zip", f"group {place} repeats an axis or has only one")
        groups.append(tuple(group))
    keep = document.object("keep", ("files",), {})
    limits = document.object("limits", tuple(RANGES), {})
    spec = Spec(
        taken, varied, tuple(groups), keep.texts("files", []),
        limits.built(lambda: Limits(**{name: _number(limits, name) for name in limits})),
    )  # fmt: skip
    _require_good(spec, fixed, axes, document)
    return spec


def _require_good(spec: Spec, fixed: Fields, axes: Fields, document: Fields) -> None:
    """Try every value once, so that a complaint names its line and not a cell."""
    first = {name: values[0] for name, values in spec.axes.items()}
    for name, value in [(None, None), *((n, v) for n, vs in spec.axes.items() for v in vs)]:
        try:
            made = scenario_of({**spec.fixed, **first, **({} if name is None else {name: value})})
            require_scheduler(made.scheduler)
        except InputError as error:
            values = {**spec.fixed, **first, **({} if name is None else {name: value})}
            of_file = next((n for n, v in values.items() if v and v == error.file), name)
            said = (error.field or "").removeprefix("--").replace("-", "_")
            names = (said, f"scheduler.{said}")
            blamed = next((name for name in names if name in {*fixed, *axes}), of_file)
            table = fixed if blamed in spec.fixed else axes
            rule = error.rule if error.file is None else f"{error.file}: {error.rule}"
            raise table.error(blamed, rule) from error
    document.built(lambda: Cell(Scenario(), keep=spec.keep), "keep")
    document.built(spec._steps, "zip")


def _value(read: Fields, name: str) -> Any:
    value = read.raw(name)
    if isinstance(value, dict):
        table = read.object(name, None)
        return {key: table.number(key) for key in table}
    if isinstance(value, list):
        raise read.error(name, "must be one value; several stand under [axes]")
    return value


def _number(read: Fields, name: str) -> Any:
    return read.number(name) if name == "seconds" else read.whole(name)


# ---------------------------------------------------------------- the list of a sweep's cells


def list_text(cells: Sequence[Cell], versions: Mapping[str, str]) -> str:
    """Text of ``sweep.json``: which cells the sweep has, in order."""
    rows = [{"key": cell.key, "axes": dict(cell.axes)} for cell in cells]
    document = {"schema": SCHEMA, "versions": dict(versions), "cells": rows}
    return json.dumps(document, indent=1) + "\n"


def read_list(path: Path) -> tuple[dict[str, str], list[tuple[str, dict[str, Value]]]]:
    """Versions, and keys with axes, of a ``sweep.json``.

    Raises
    ------
    InputError
        If it is none of this version.
    """
    document = Fields(read_json(path), "", str(path), ("schema", "versions", "cells"))
    if document.text("schema") != SCHEMA:
        rule = f"must be {SCHEMA!r}, the sweep is of another version: {document.text('schema')!r}"
        raise document.error("schema", rule)
    table = document.object("versions", None)
    rows = document.objects("cells", ("key", "axes"))
    found = []
    for row in rows:
        axes = row.object("axes", None)
        values = {name: axes.raw(name) for name in axes}
        for name, value in values.items():
            if not isinstance(value, str | int | float):
                raise axes.error(name, "must be text, a number, true or false")
        if not _KEY.fullmatch(row.text("key")):
            raise row.error("key", "must be a SHA-256 in hexadecimal")
        found.append((row.text("key"), values))
    return {name: table.text(name) for name in table}, found
