"""Loading of traces: from a spec to jobs and their true speeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from morph_opt.core.documents import exists, is_file
from morph_opt.core.domain import InputError, Trace
from morph_opt.core.domain.arguments import require_type
from morph_opt.core.domain.nearest import unknown
from morph_opt.core.extend import extension, made_by, require_kind, require_parts
from morph_opt.inputs.perf.analytic.zoo import builtin_model
from morph_opt.inputs.traces import easyscale, gavel, morphling, tiresias
from morph_opt.inputs.traces.cluster_twins import draw as cluster_twins
from morph_opt.inputs.traces.format import STATE_TRACE, LoadedTrace, TraceFormat
from morph_opt.inputs.traces.logs.guess import also, is_json, looks_like
from morph_opt.inputs.traces.logs.options import log_file, published_log, published_logs
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.logs.registry import (
    ENTRY_POINT_GROUP,
    LOG_FORMATS,
    LogSpec,
    require_format,
)
from morph_opt.inputs.traces.resampled import RESAMPLED, resample, split_resampled
from morph_opt.inputs.traces.twins import easyscale as easyscale_twin
from morph_opt.inputs.traces.twins import gavel as gavel_twin
from morph_opt.inputs.traces.twins import morphling as morphling_twins
from morph_opt.inputs.traces.twins import search as search_twin
from morph_opt.inputs.traces.twins import tiresias as tiresias_twin

_EXTENSION = re.compile(r"[\w.-]{1,200}(:\w{1,200})?")


def _load_file(path: Path) -> LoadedTrace:
    """Return the jobs of a CSV file in the layout of the Morphling workloads."""
    truth = builtin_model()
    notice = f"{path.name}: your file, speeds of the built-in performance model"
    try:
        models = truth.models()
        trace = morphling.read_workload(path, name=path.name, models=models, description=notice)
    except InputError as error:
        if error.line != 1 and not error.rule.startswith("column is missing"):
            raise
        if is_json(path):
            rule = f"is JSON, and jobs are read from CSV{looks_like(path)}"
            raise InputError(rule, file=str(path)) from error
        raise also(error, looks_like(path)) from error
    return LoadedTrace(trace, truth, "file", notice)


def _load_resampled(argument: str, *, seed: int, **options: Any) -> LoadedTrace:
    return resample(argument, seed=seed, load_trace=partial(load_trace, **options))


_OF_BASE = "as of the trace that it is drawn from"

FORMATS: dict[str, TraceFormat] = {
    one.name: one
    for one in (
        *morphling_twins.FORMATS,
        gavel_twin.FORMAT,
        tiresias_twin.FORMAT,
        search_twin.FORMAT,
        *cluster_twins.FORMATS,
        *map(published_logs, LOG_FORMATS.values()),
        morphling.FORMAT,
        gavel.FORMAT,
        tiresias.FORMAT,
        easyscale_twin.FORMAT,
        TraceFormat(RESAMPLED, ("x1.2/as-is/naive",), _load_resampled, _OF_BASE),
    )
}
"""Built-in formats by name, logs included; a CSV file needs no name of a format."""

PATH_FORMATS = {one.name: one for one in (easyscale.FORMAT, gavel.OWN_FORMAT)}
"""Formats that take a path, ``NAME:PATH``; the readers of logs are in `LOG_FORMATS`."""


@dataclass(frozen=True, slots=True)
class _Spec:
    """Parts of a spec without ``resampled/...``.

    Parameters
    ----------
    format
        Its built-in format; None for a CSV file, a user's own source and what is unknown.
    argument
        Argument of the format's `load`.
    paths
        Files or folders that it names.
    before, after
        The spec's text around the paths.
    log
        The parts of a log's spec.
    """

    format: TraceFormat | None
    argument: str = ""
    paths: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    log: LogSpec | None = None

    @classmethod
    def of(cls, spec: str) -> _Spec:
        """Return the parts of a spec."""
        name, colon, rest = spec.partition(":")
        known = PATH_FORMATS.get(name) if colon else None
        paths = known.paths(rest) if known is not None and known.paths is not None else ()
        if paths:
            return cls(known, rest, paths, f"{name}:")
        log = LogSpec.of(spec)
        if log is not None:
            before = f"{log.name}:"
            after = spec[len(before) + len(log.path) :]
            return cls(log_file(log), "", (log.path,), before, after, log)
        name, _, argument = spec.partition("/")
        if name in FORMATS:
            return cls(FORMATS[name], argument)
        of_file = spec != STATE_TRACE and (spec.endswith(".csv") or is_file(Path(spec)))
        return cls(None, "", (spec,) if of_file else ())


def _load_own(source: object, name: str, argument: str, *, seed: int) -> LoadedTrace:
    """Load the trace of a user's own source."""
    contract = "source(argument, *, seed)"
    made = made_by(source, name, "trace", contract, argument, seed=seed)
    parts = ("trace", "truth", "kind", "notice")
    loaded = cast(LoadedTrace, require_parts(made, name, "trace", "LoadedTrace", parts))
    require_kind(loaded.trace, Trace, f"{name}: the part trace", "trace")
    speeds = ("name", "models", "iteration_s", "configurations")
    require_parts(loaded.truth, f"{name}: the part truth", "trace", "SpeedModel", speeds)
    return loaded


def home_cluster(spec: str, **options: Any) -> str | None:
    """Return the short form of the cluster that a trace was made for; None for the default one.

    Raises
    ------
    InputError
        If the trace does not take one of the options, or a value is out of range.
    """
    parts = _Spec.of(split_resampled(spec)[-1])
    options = _understood(spec, options)
    home = parts.format.home if parts.format is not None else None
    return home(parts.argument, **options) if callable(home) else home


def _understood(spec: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the given options; refuse those that the underlying trace does not take."""
    spec = split_resampled(spec)[-1]
    known = _Spec.of(spec).format
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if known is None or name not in known.options:
            takers = ", ".join(one.name for one in FORMATS.values() if name in one.options)
            rule = f"has no effect on trace {spec!r}; it is for {takers or 'no trace'}"
            raise InputError(rule, field=name)
        known.options[name].require(value)
    return given


def takes_seed(spec: str, jobs_as: str | None = None) -> bool:
    """Return whether a seed changes a trace: a twin or a user's own source, not a file.

    A seed changes a log only if ``jobs_as`` is ``sampled``.
    """
    known = _Spec.of(spec).format
    if known is None:
        return _source(spec) is not None
    return known.seeded or (known.log and jobs_as == "sampled")


def log_of(spec: str) -> LogSpec | None:
    """Return the log that a spec names, by path or as a published one; None if it names none."""
    name, _, argument = spec.partition("/")
    published = LOG_FORMATS.get(name)
    return (published and published_log(published, argument)) or LogSpec.of(spec)


# ---------------------------------------------------------------- files that a spec names


def trace_paths(spec: str) -> tuple[str, ...]:
    """Return the paths in a spec, as written; empty if it names a trace by name."""
    return _Spec.of(split_resampled(spec)[-1]).paths


def with_paths(spec: str, paths: Sequence[str]) -> str:
    """Return the spec with other paths; unchanged if it has none."""
    base = split_resampled(spec)[-1]
    parts = _Spec.of(base)
    if not parts.paths:
        return spec
    return spec[: len(spec) - len(base)] + parts.before + ",".join(paths) + parts.after


def trace_files(spec: str) -> tuple[str, ...]:
    """Return the files from which a trace is read; empty for a trace by name."""
    base = split_resampled(spec)[-1]
    parts = _Spec.of(base)
    if parts.log is not None:
        return tuple(map(str, Scan(Path(parts.log.path), parts.log.reader).reader.files()))
    if parts.format is not None and parts.format.files is not None:
        return parts.format.files(parts.argument)
    if not parts.paths and ":" in spec:
        _source(base)  # code that a file must not name is refused here
    return parts.paths


def absolute_spec(spec: str) -> str:
    """Return a spec that means the same in every folder: its paths are absolute."""
    return with_paths(spec, [str(Path(path).resolve()) for path in trace_paths(spec)])


def known_traces() -> tuple[str, ...]:
    """Return the names that `load_trace` takes without a file, entry points included."""
    names = [spec for known in FORMATS.values() for spec in known.specs]
    return (*names, *sorted(e.name for e in entry_points(group=ENTRY_POINT_GROUP)))


def load_trace(spec: str | Path, *, seed: int = 0, **options: Any) -> LoadedTrace:
    """Load a trace by name, import path or file.

    Parameters
    ----------
    spec
        ``base``, ``bp``, ``mt``, ``naive`` (twins); ``morphling/base`` and so on (originals);
        the name of an entry point of group ``morph_opt.traces`` or an import path
        ``package.module:source``, each optionally followed by ``/argument``; a log, as
        ``FORMAT:PATH`` (`morph_opt.inputs.traces.logs.registry.log_format`) or by name
        (``acme/seren``), either with a window ``@from..to`` of submissions; or the path of a CSV
        file in the layout of the Morphling workloads.
    seed
        Member of the family, for generated traces; 0 is the project's fixed twin.
    **options
        Options of the trace's format: ``jobs``, ``gpus`` and ``days`` of a cluster twin, those
        of `morph_opt.inputs.traces.options.LOG_OPTIONS` of a log. None is as not given.

    Raises
    ------
    InputError
        If the name is unknown (the known ones are listed), the data are not on this machine
        (the error names both ways to get them), or a file is wrong (file, line, field and rule).
    """
    spec = str(require_type("spec", spec, str, Path))
    seed = require_type("seed", seed, int)
    parts = _Spec.of(spec)
    options = _understood(spec, options)
    known = parts.format
    source = _source(spec) if known is None else (known.load, parts.argument)
    if source is not None:
        return source[0](source[1], seed=seed, **options)
    path = Path(spec)
    require_format(spec, "trace")
    if path.suffix == ".csv" or (exists(path) and not path.is_dir()):
        return _load_file(path)
    more = "or give a CSV file, or a log as FORMAT:PATH"
    folder = "it is a folder; " if path.is_dir() else ""
    raise InputError(folder + unknown("trace", spec, known_traces(), more), field="trace")


def _source(spec: str) -> tuple[Callable[..., LoadedTrace], str] | None:
    """Return the source that a spec names and its argument; None for a file."""
    head, _, argument = spec.partition("/")
    found = extension(ENTRY_POINT_GROUP, head) if _EXTENSION.fullmatch(head) else None
    if found is None:
        return None
    if not callable(found):
        raise InputError(f"{head} is not a trace source (not callable)", field="trace")
    return partial(_load_own, found, head), argument
