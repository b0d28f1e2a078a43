"""Model files: entries of the analytic model and priors of new models, as TOML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from morph_opt.core.documents import Fields, key_lines, names_of, parse_toml, plain, toml_text
from morph_opt.core.domain import InputError
from morph_opt.inputs.perf.analytic.architecture import CONSTANT_NAMES, Architecture, Constants
from morph_opt.inputs.perf.analytic.model import ModelEntry
from morph_opt.inputs.perf.analytic.prior import Population, prior


def outlines_of(text: str, file: str, population: Population) -> list[ModelEntry]:
    """Return the entries of a file, with the population's medians for missing constants.

    For users who have a model's architecture and no run yet. Other parameters and errors as
    `entries_of`.
    """
    return _entries(text, file, population)


def entries_of(text: str, file: str) -> list[ModelEntry]:
    """Return the entries of a model file.

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
    return _entries(text, file)


def _document(text: str, file: str) -> Fields:
    return Fields(parse_toml(text, file), "", file, ("population", "models"), key_lines(text))


def _entries(text: str, file: str, population: Population | None = None) -> list[ModelEntry]:
    document = _document(text, file)
    tables = document.named("models", names_of(ModelEntry))
    if not tables:
        raise InputError("has no [models.*] table", file=file)
    return [_entry(name, table, population) for name, table in tables.items()]


def population_of(text: str, file: str) -> Population:
    """Return the population of a model file.

    Raises
    ------
    InputError
        If the file has none, or it does not name exactly the constants of the model.
    """
    table = _document(text, file).object("population", ("shift", "log_sd"))
    parts = [table.object(name, CONSTANT_NAMES) for name in ("shift", "log_sd")]
    shift, log_sd = (np.array([part.number(name) for name in CONSTANT_NAMES]) for part in parts)
    return Population(shift, log_sd)


def dump(entries: Sequence[ModelEntry], population: Population | None, header: str) -> str:
    """Return the text of a model file, for `entries_of` and `population_of` to read.

    Parameters
    ----------
    header
        Comment for the first line.
    """
    tables: dict[str, Any] = {}
    if population is not None:
        tables["population"] = {
            part: {
                name: float(f"{value:.4g}")
                for name, value in zip(CONSTANT_NAMES, getattr(population, part), strict=True)
            }
            for part in ("shift", "log_sd")
        }
    tables["models"] = {entry.architecture.name: _tables(entry) for entry in entries}
    return f"# {header}\n\n{toml_text(tables)}"


def _tables(entry: ModelEntry) -> dict[str, Any]:
    found: dict[str, Any] = {
        "architecture": plain(entry.architecture, "name"),
        "support": plain(entry.support),
        "constants": {n: float(f"{getattr(entry.constants, n):.6g}") for n in CONSTANT_NAMES},
    }
    quirks = [plain(quirk) for quirk in entry.quirks]
    return found | {"quirks": quirks} if quirks else found


def _entry(name: str, table: Fields, population: Population | None) -> ModelEntry:
    known = table.object("architecture", names_of(Architecture, "name"))
    found: dict[str, Any] = {"architecture": known.make(Architecture, name=name)}
    if population is not None and not table.given("constants"):
        median = np.exp(prior(found["architecture"], population).log_mean).tolist()
        found["constants"] = Constants(**dict(zip(CONSTANT_NAMES, median, strict=True)))
    return table.make(ModelEntry, **found)
