"""The built-in models: architectures, fitted constants and supports, in ``zoo.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from morph_opt.domain import ExecutionPlan, InputError
from morph_opt.perf.analytic import Architecture, Constants
from morph_opt.perf.model import AnalyticModel, ModelEntry, Quirk
from morph_opt.perf.support import Support


@lru_cache(maxsize=1)
def builtin_model() -> AnalyticModel:
    """The speed model of the built-in zoo on A800 nodes; one shared, immutable object.

    Its constants are fitted to the public Morphling measurements by
    ``python -m morph_opt.perf fit-zoo``; it is the truth of the project's twin traces.
    """
    text = resources.files("morph_opt.perf").joinpath("zoo.toml").read_text(encoding="utf-8")
    return AnalyticModel(entries_of(text, "zoo.toml"), name="model")


def entries_of(text: str, file: str) -> list[ModelEntry]:
    """Entries of a model file in TOML.

    Raises
    ------
    InputError
        If the text is no TOML or a table lacks a key, has an unknown one, or a wrong value.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is no TOML: {error}", file=file) from None
    found = []
    for name, table in document.get("models", {}).items():
        try:
            found.append(_entry(name, table))
        except InputError as error:
            raise error.located(file=file, field=f"models.{name}") from None
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(
                f"has a wrong or missing key: {error}", file=file, field=f"models.{name}"
            ) from None
    return found


def _entry(name: str, table: Mapping[str, Any]) -> ModelEntry:
    support = dict(table["support"])
    for key in ("plans", "three_d"):
        support[key] = [ExecutionPlan.parse(label) for label in support.get(key, ())]
    return ModelEntry(
        architecture=Architecture(name=name, **table["architecture"]),
        constants=Constants(**table["constants"]),
        support=Support(**{key: tuple(value) for key, value in support.items()}),
        quirks=tuple(
            Quirk(
                gpus=quirk["gpus"],
                plans=tuple(ExecutionPlan.parse(label) for label in quirk["plans"]),
                work=quirk["work"],
            )
            for quirk in table.get("quirks", ())
        ),
    )
