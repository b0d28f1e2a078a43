"""Model files: entries of the analytic model, and what they say of new models, as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from morph_opt.domain import ExecutionPlan, InputError
from morph_opt.perf.analytic.architecture import CONSTANT_NAMES, Architecture, Constants
from morph_opt.perf.analytic.model import ModelEntry, Quirk
from morph_opt.perf.analytic.prior import Population
from morph_opt.perf.analytic.support import Support


def outlines_of(text: str, file: str) -> list[ModelEntry]:
    """Entries of a file that may lack constants; these are then the median of the population.

    For users who have a model's architecture and no run yet. Parameters and errors as
    `entries_of`.
    """
    from morph_opt.perf.analytic.prior import prior
    from morph_opt.perf.analytic.zoo import builtin_population

    document = _document(text, file)
    for name, table in document.get("models", {}).items():
        if isinstance(table, dict) and "constants" not in table:
            try:
                architecture = Architecture(name=name, **table["architecture"])
            except InputError as error:
                raise error.located(file=file, field=f"models.{name}") from None
            except (TypeError, KeyError) as error:
                raise InputError(
                    f"has a wrong or missing key: {error}", file=file, field=f"models.{name}"
                ) from None
            values = np.exp(prior(architecture, builtin_population()).log_mean)
            table["constants"] = dict(zip(CONSTANT_NAMES, values, strict=True))
    return _entries(document, file)


def entries_of(text: str, file: str) -> list[ModelEntry]:
    """Entries of a model file.

    Parameters
    ----------
    text
        Content of the file.
    file
        Its name, for messages.

    Raises
    ------
    InputError
        If the text is no TOML or a table lacks a key, has an unknown one, or a wrong value.
    """
    return _entries(_document(text, file), file)


def _entries(document: Mapping[str, Any], file: str) -> list[ModelEntry]:
    models = document.get("models", {})
    if not isinstance(models, dict) or not models:
        raise InputError("has no [models.*] table", file=file)
    found = []
    for name, table in models.items():
        try:
            found.append(_entry(name, table))
        except InputError as error:
            raise error.located(file=file, field=f"models.{name}") from None
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise InputError(
                f"has a wrong or missing key: {error}", file=file, field=f"models.{name}"
            ) from None
    return found


def population_of(text: str, file: str) -> Population:
    """The population of a model file.

    Raises
    ------
    InputError
        If the file has none, or it does not name exactly the constants of the model.
    """
    table = _document(text, file).get("population", {})
    for part in ("shift", "log_sd"):
        if not isinstance(table.get(part), dict) or set(table[part]) != set(CONSTANT_NAMES):
            raise InputError(
                "must name exactly the constants of the model",
                file=file,
                field=f"population.{part}",
            )
    return Population(
        np.array([float(table["shift"][name]) for name in CONSTANT_NAMES]),
        np.array([float(table["log_sd"][name]) for name in CONSTANT_NAMES]),
    )


def dump(entries: Sequence[ModelEntry], population: Population | None, header: str) -> str:
    """Text of a model file; `entries_of` and `population_of` read it back.

    Parameters
    ----------
    header
        Comment for the first line.
    """
    blocks = [f"# {header}"]
    if population is not None:
        for part in ("shift", "log_sd"):
            values = getattr(population, part)
            lines = [f"{n} = {v:.4g}" for n, v in zip(CONSTANT_NAMES, values, strict=True)]
            blocks.append("\n".join([f"[population.{part}]", *lines]))
    for entry in entries:
        blocks.extend(_blocks(entry))
    return "\n\n".join(blocks) + "\n"


def _blocks(entry: ModelEntry) -> list[str]:
    name = f"models.{entry.architecture.name}"
    numbers = [
        f"{field.name} = {getattr(entry.architecture, field.name)}"
        for field in fields(Architecture)
        if field.name != "name"
    ]
    support = [
        f"plans = {_labels(entry.support.plans)}",
        f"gpus = {list(entry.support.gpus)}",
        f"three_d = {_labels(entry.support.three_d)}",
        f"parts = {list(entry.support.parts)}",
    ]
    constants = [f"{n} = {getattr(entry.constants, n):.6g}" for n in CONSTANT_NAMES]
    blocks = [
        "\n".join([f"[{name}.architecture]", *numbers]),
        "\n".join([f"[{name}.support]", *support]),
        "\n".join([f"[{name}.constants]", *constants]),
    ]
    for quirk in entry.quirks:
        lines = [f"gpus = {quirk.gpus}", f"plans = {_labels(quirk.plans)}", f"work = {quirk.work}"]
        blocks.append("\n".join([f"[[{name}.quirks]]", *lines]))
    return blocks


def _labels(plans: Sequence[ExecutionPlan]) -> str:
    if len(plans) <= 6:
        return "[" + ", ".join(f'"{plan}"' for plan in plans) + "]"
    return "[\n" + "".join(f'    "{plan}",\n' for plan in plans) + "]"


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is no TOML: {error}", file=file) from None


def _entry(name: str, table: Mapping[str, Any]) -> ModelEntry:
    support = dict(table["support"])
    for key in ("plans", "three_d"):
        support[key] = [ExecutionPlan.parse(label) for label in support.get(key, ())]
    return ModelEntry(
        architecture=Architecture(name=name, **table["architecture"]),
        constants=Constants(**{key: float(v) for key, v in table["constants"].items()}),
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
