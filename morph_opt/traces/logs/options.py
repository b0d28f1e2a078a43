"""Options of a replay of a log: how it is read, and how its rows become jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from morph_opt.domain import InputError
from morph_opt.domain.errors import typed
from morph_opt.domain.options import asked
from morph_opt.traces.format import LoadedTrace
from morph_opt.traces.logs.guess import also, looks_like
from morph_opt.traces.logs.jobs import load_log
from morph_opt.traces.logs.reading.records import MissingColumns
from morph_opt.traces.logs.reading.row import Reading
from morph_opt.traces.logs.registry import LogSpec
from morph_opt.traces.options import LogOptions, ReadingOptions

_MODE_OF = {"scaling": "anchored", "mix": "sampled"}


def load_spec(
    spec: LogSpec,
    name: str,
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    terms: Mapping[str, str] | None = None,
) -> LoadedTrace:
    """The jobs of a log.

    Parameters
    ----------
    spec
        Which log.
    name
        What the user calls it.
    seed
        Of sampled jobs.
    options
        Of `morph_opt.traces.options.LOG_OPTIONS`, by name.
    terms
        Licence and citation of a published log.

    Raises
    ------
    InputError
        See `morph_opt.traces.logs.jobs.load_log`; also if an option has no effect.
    """
    given = dict(options or {})
    for option, mode in _MODE_OF.items():
        if option in given and given.get("jobs_as", "rigid") != mode:
            raise InputError(
                f"has an effect together with {typed('--jobs-as')} {mode} only", field=option
            )
    read = {name: value for name, value in given.items() if name in asked(ReadingOptions)}
    how, mapped = Reading(**read, window=spec.window), LogOptions(**given)
    path, known = Path(spec.path), spec.reader
    try:
        return load_log(path, known, how, mapped, name=name, seed=seed, terms=terms)
    except MissingColumns as error:
        raise also(error, looks_like(path, unlike=known.name)) from error
