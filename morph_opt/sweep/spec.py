"""Definition of a sweep, ``sweep.toml``: fixed and varied options, kept files, limits."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from morph_opt.core.documents import Fields, key_lines, names_of, read_json, read_toml
from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.domain.options import Setting, asked
from morph_opt.replay.scenario import PARTS, Scenario
from morph_opt.scheduling.policies.scheduler import require_scheduler
from morph_opt.sweep.cell import Cell
from morph_opt.sweep.order import Limits

SCHEMA = "morph-opt/sweep/1"
_KEY = re.compile("[0-9a-f]{64}")
MOST_CELLS = 100_000
_TOP = ("fixed", "axes", "zip", "variant", "keep", "limits")
VARIANT = "variant"
"""Name of the axis of variants, and of their table in a file."""
Value = str | int | float | bool


def options_of(parts: Mapping[str, type[Any]]) -> tuple[tuple[str, ...], dict[str, Setting]]:
    """Return the names that a sweep may use, and the setting of each name but ``cluster``."""
    known = {part: asked(kind) for part, kind in parts.items()}
    found = {name: one for options in known.values() for name, one in options.items()}
    found |= {f"{part}.seed": one["seed"] for part, one in known.items() if "seed" in one}
    return ("cluster", *found), found


NAMES, _SETTINGS = options_of(PARTS)
"""Names that can be fixed or varied: every field of a scenario; ``seed`` sets all parts."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Definition of a sweep.

    Parameters
    ----------
    fixed, axes
        Values by the names of `NAMES`; the cells are the product of the axes, first axis slowest.
    zip
        Groups of axes that vary together, by name.
    keep
        Files of each run to keep next to its summary.
    limits
        Limits of each cell.
    variants
        Named sets of values by the names of `NAMES`. Each is run with every combination of the
        axes and overrides ``fixed``.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    zip: tuple[tuple[str, ...], ...] = ()
    keep: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in require_type("axes", self.axes, Mapping).items():
            require_type(f"axes.{name}", values, Sequence)

    def cells(self) -> list[Cell]:
        """Return all cells, in order.

        Raises
        ------
        InputError
            If a name is unknown, a value out of range, or zipped axes differ in length.
        """
        steps = self._steps()
        if self.variants:
            steps.insert(0, [[(VARIANT, name)] for name in self.variants])
        count = 1
        for step in steps:
            count *= len(step)
        if count > MOST_CELLS:
            raise InputError(f"has {count} cells, at most {MOST_CELLS}", field="axes")
        found = []
        for combination in itertools.product(*steps):
            axes = tuple(pair for part in combination for pair in part)
            found.append(Cell(scenario_of(self.values(dict(axes))), axes, self.keep))
        return found

    def values(self, axes: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values of a cell: fixed ones, its variant's, and the values of its axes."""
        own = self.variants.get(axes.get(VARIANT, ""), {})
        varied = {name: value for name, value in axes.items() if name != VARIANT}
        return {**self.fixed, **own, **varied}

    def _steps(self) -> list[list[list[tuple[str, Value]]]]:
        """Return the values of each step, per axis or group of axes."""
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
    """Make the scenario with these values, by the names of `NAMES`.

    Raises
    ------
    InputError
        If a name is unknown or a value out of range or of another type.
    """
    for name in values:
        if name not in NAMES:
            near = did_you_mean(name, NAMES)
            raise InputError(f"unknown field{near}; known are {', '.join(NAMES)}", field=name)
        if name in _SETTINGS:
            try:
                _SETTINGS[name].require(values[name])
            except InputError as error:
                raise InputError(error.rule, field=name) from error
        elif not isinstance(values[name], str):
            raise InputError(f"must be text, got {values[name]!r}", field=name)
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


def read_spec(path: str | Path) -> Spec:
    """Read a sweep from a file; refusals name file, line and field.

    Raises
    ------
    InputError
        If it is no valid sweep.
    """
    path = Path(require_type("path", path, str, Path))
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
    named = document.objects(VARIANT, ("name", *NAMES), [])
    variants: dict[str, dict[str, Any]] = {}
    for own in named:
        name = own.text("name")
        if name in variants:
            raise own.error("name", f"is duplicated: {name!r}")
        variants[name] = {one: _value(own, one) for one in own if one != "name"}
        if both := set(variants[name]) & set(varied):
            raise own.error(min(both), "is varied under [axes] as well")
    groups: list[tuple[str, ...]] = []
    for place, group in enumerate(document.rows("zip", [])):
        if not isinstance(group, list) or not all(isinstance(name, str) for name in group):
            raise document.error("zip", "must be lists of axes")
        if any(name in other for other in groups for name in group) or len(set(group)) < 2:
            raise document.error("zip", f"group {place} repeats an axis or has only one")
        groups.append(tuple(group))
    keep = document.object("keep", ("files",), {})
    limits = document.object("limits", names_of(Limits), {}).make(Limits)
    spec = Spec(
        taken, varied, tuple(groups), keep.value("files", tuple[str, ...], ()), limits, variants
    )
    for each in (*named,) or (None,):
        _require_good(spec, fixed, axes, document, each)
    return spec


def _require_good(
    spec: Spec, fixed: Fields, axes: Fields, document: Fields, own: Fields | None
) -> None:
    """Try every value once with a variant, so that a refusal names its line and not a cell."""
    first: dict[str, Any] = {name: values[0] for name, values in spec.axes.items()}
    if own is not None:
        first[VARIANT] = own.text("name")
    for name, value in [(None, None), *((n, v) for n, vs in spec.axes.items() for v in vs)]:
        values = spec.values({**first, **({} if name is None else {name: value})})
        try:
            made = scenario_of(values)
            require_scheduler(made.scheduler)
        except InputError as error:
            of_file = next((n for n, v in values.items() if v and v == error.file), name)
            wrong = (error.field or "").removeprefix("--").replace("-", "_")
            names = (wrong, f"scheduler.{wrong}")
            where = [*((own,) if own is not None else ()), fixed, axes]
            known = {one for table in where for one in table}
            blamed = next((one for one in names if one in known), of_file)
            table = next((table for table in where if blamed in table), own or axes)
            found = table.error(blamed, error.rule)
            if error.file not in (None, found.file):
                found = table.error(blamed, f"{error.file}: {error.rule}")
            raise found from error
    document.built(lambda: Cell(Scenario(), keep=spec.keep), "keep")
    document.built(spec._steps, "zip")


def _value(read: Fields, name: str) -> Any:
    value = read.raw(name)
    if isinstance(value, dict):
        return read.value(name, dict[str, float])
    if isinstance(value, list):
        raise read.error(name, "must be one value; several belong under [axes]")
    return value


# ---------------------------------------------------------------- the list of a sweep's cells


def list_text(cells: Sequence[Cell], versions: Mapping[str, str]) -> str:
    """Return the text of ``sweep.json``, the list of a sweep's cells in order."""
    rows = [{"key": cell.key, "axes": dict(cell.axes)} for cell in cells]
    document = {"schema": SCHEMA, "versions": dict(versions), "cells": rows}
    return json.dumps(document, indent=1) + "\n"


def read_list(path: Path) -> tuple[dict[str, str], list[tuple[str, dict[str, Value]]]]:
    """Read the versions, and the keys with axes, of a ``sweep.json``.

    Raises
    ------
    InputError
        If it is no ``sweep.json`` of this version.
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
