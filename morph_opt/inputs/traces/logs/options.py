"""Loading of logs for a replay: how they are read, and how rows become jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.options import asked
from morph_opt.inputs.data import dataset, is_published, locate
from morph_opt.inputs.traces.format import SECONDS, LoadedTrace, TraceFormat
from morph_opt.inputs.traces.logs.guess import also, looks_like
from morph_opt.inputs.traces.logs.jobs import load_log
from morph_opt.inputs.traces.logs.reading.reader import Reader
from morph_opt.inputs.traces.logs.reading.records import MissingColumns
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.logs.registry import LogSpec, windowed
from morph_opt.inputs.traces.options import LOG_OPTIONS, LogOptions, ReadingOptions

_MODE_OF = {"scaling": "anchored", "mix": "sampled"}


def load_spec(
    spec: LogSpec,
    name: str,
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    terms: Mapping[str, str] | None = None,
) -> LoadedTrace:
    """Load the jobs of a log.

    Parameters
    ----------
    spec
        The log.
    name
        Name for the user.
    seed
        Seed of sampled jobs.
    options
        Values by name, as in `morph_opt.inputs.traces.options.LOG_OPTIONS`.
    terms
        Licence and citation of a published log.

    Raises
    ------
    InputError
        See `morph_opt.inputs.traces.logs.jobs.load_log`; also if an option has no effect.
    """
    given = dict(options or {})
    require_mode(given)
    read = {name: value for name, value in given.items() if name in asked(ReadingOptions)}
    how, mapped = Reading(**read, window=spec.window), LogOptions(**given)
    path, known = Path(spec.path), spec.reader
    try:
        return load_log(path, known, how, mapped, name=name, seed=seed, terms=terms)
    except MissingColumns as error:
        raise also(error, looks_like(path, unlike=known.name)) from error


def require_mode(given: Mapping[str, Any]) -> None:
    """Refuse options, by name, that have no effect with the chosen speeds of jobs.

    Raises
    ------
    InputError
        Naming the option.
    """
    for option, mode in _MODE_OF.items():
        if option in given and given.get("jobs_as", "rigid") != mode:
            rule = f"has an effect together with {typed('--jobs-as')} {mode} only"
            raise InputError(rule, field=option)


def log_file(spec: LogSpec) -> TraceFormat:
    """Return the trace format of one log, ``FORMAT:PATH``."""
    load = partial(_load_file, spec)
    return TraceFormat(spec.name, ("",), load, SECONDS, options=LOG_OPTIONS, log=True)


def _load_file(spec: LogSpec, argument: str, *, seed: int, **options: Any) -> LoadedTrace:
    """Return the jobs of one log, named without its folder."""
    del argument  # is part of the path
    short = replace(spec, path=Path(spec.path).name)
    return load_spec(spec, str(short), seed=seed, options=options)


def published_logs(reader: type[Reader]) -> TraceFormat:
    """Return the trace format of the published logs of a log format."""
    return TraceFormat(
        reader.name,
        tuple(reader.data_files),
        partial(_load_published, reader),
        SECONDS,
        reader.home,
        reader.name if reader.data_files else None,
        LOG_OPTIONS,
        True,
    )


def published_log(reader: type[Reader], argument: str) -> LogSpec | None:
    """Return the published log of ``NAME/argument``; None if the argument is none of them."""
    which, window = windowed(argument)
    file = reader.data_files.get(which)
    if file is None:
        return None
    return LogSpec(reader.name, str(locate(reader.name, file) / file), window)


def _load_published(
    reader: type[Reader], argument: str, *, seed: int, **options: Any
) -> LoadedTrace:
    """Return the jobs of a published log, with its licence and citation."""
    name = reader.name
    title = f"{name}/{argument}" if argument else name
    spec = published_log(reader, argument)
    if spec is None:
        files = (f"{name}/{one}" if one else name for one in reader.data_files)
        known = ", ".join((*files, f"{name}:PATH"))
        raise InputError(f"unknown trace {title}; known are {known}", field="trace")
    published = dataset(name)
    terms = {"licence": published.licence, "citation": published.citation}
    loaded = load_spec(spec, title, seed=seed, options=options, terms=terms)
    same = is_published(name, Scan(Path(spec.path), reader).reader.files())
    return replace(loaded, kind="original" if same else "file")
