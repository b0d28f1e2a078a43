"""`load_trace`: from what a user types to a trace and the speeds that its jobs truly have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from morph_opt.data import dataset, find, locate
from morph_opt.documents import exists, is_file
from morph_opt.domain import InputError, Trace
from morph_opt.domain.checked import checked
from morph_opt.domain.nearest import unknown
from morph_opt.extend import extension, made_by, require_kind, require_parts
from morph_opt.perf.analytic.zoo import builtin_model
from morph_opt.traces import easyscale, gavel, tiresias
from morph_opt.traces.cluster_twins import (
    CLUSTER_TWINS,
    cluster_twin,
    twin_home,
)
from morph_opt.traces.format import STATE_TRACE, LoadedTrace, TraceFormat
from morph_opt.traces.logs.guess import also, looks_like
from morph_opt.traces.logs.options import load_spec
from morph_opt.traces.logs.reading.scan import Scan
from morph_opt.traces.logs.registry import (
    ENTRY_POINT_GROUP,
    LOG_FORMATS,
    LogSpec,
    require_format,
    windowed,
)
from morph_opt.traces.morphling import WORKLOADS, read_tables, read_workload
from morph_opt.traces.options import LOG_OPTIONS, TWIN_OPTIONS
from morph_opt.traces.resampled import RESAMPLED, resample, split_resampled
from morph_opt.traces.twins.easyscale import EASYSCALE_TWIN, easyscale_twin
from morph_opt.traces.twins.gavel import GAVEL_TWIN, gavel_twin
from morph_opt.traces.twins.morphling import TWINS, twin
from morph_opt.traces.twins.search import ONE_SEARCH, SEARCH_TWIN, search_twin
from morph_opt.traces.twins.tiresias import TIRESIAS_TWIN, tiresias_twin

_EXTENSION = re.compile(r"[\w.-]{1,200}(:\w{1,200})?")


def _load_twin(name: str, argument: str, *, seed: int) -> LoadedTrace:
    if argument:
        raise InputError(f"{name} takes nothing behind it, got {argument!r}", field="trace")
    trace = twin(name, seed=seed)
    return LoadedTrace(trace, builtin_model(), "twin", trace.description)


def _load_morphling(argument: str, *, seed: int) -> LoadedTrace:
    del seed  # an original is what it is
    name = f"morphling/{argument}"
    if argument not in WORKLOADS:
        raise InputError(unknown("trace", name, known_traces()), field="trace")
    root = locate("morphling")
    table = read_tables(root)
    notice = f"{name}: original trace of the public Morphling artifact, speeds as measured there"
    path = root / "simulator" / "workloads" / WORKLOADS[argument]
    trace = read_workload(path, name=name, models=table.models(), description=notice)
    return LoadedTrace(trace, table, "original", notice)


def _load_file(path: Path) -> LoadedTrace:
    truth = builtin_model()
    notice = f"{path.name}: your file, speeds of the built-in performance model"
    try:
        trace = read_workload(path, name=path.name, models=truth.models(), description=notice)
    except InputError as error:
        if not error.rule.startswith("column is missing"):
            raise
        raise also(error, looks_like(path)) from error
    return LoadedTrace(trace, truth, "file", notice)


def _load_fair_twin(name: str, argument: str, *, seed: int) -> LoadedTrace:
    if argument and (name, argument) != (GAVEL_TWIN, "slo"):
        also = " or slo" if name == GAVEL_TWIN else ""
        raise InputError(f"{name} takes nothing{also} behind it, got {argument!r}", field="trace")
    trace, truth = (
        gavel_twin(seed, slos=bool(argument)) if name == GAVEL_TWIN else tiresias_twin(seed)
    )
    return LoadedTrace(trace, truth, "twin", trace.description)


def _load_search_twin(argument: str, *, seed: int) -> LoadedTrace:
    trace, truth = search_twin(argument, seed)
    return LoadedTrace(trace, truth, "twin", trace.description)


def _load_fair_original(name: str, argument: str, *, seed: int) -> LoadedTrace:
    del seed  # an original is what it is
    # A name that does not exist is refused as unknown before the data set is asked for: on a
    # machine without it, fetching would not help.
    if name == "tiresias":
        tiresias.parse_name(argument)
    elif find(name) is None:
        gavel.require_known(argument, gavel.published_names())
    reader = gavel.load if name == "gavel" else tiresias.load
    trace, truth, notice = reader(locate(name), argument)
    return LoadedTrace(trace, truth, "original", notice)


def _load_cluster_twin(name: str, argument: str, *, seed: int, **options: Any) -> LoadedTrace:
    trace, truth = cluster_twin(name, argument, seed=seed, **options)
    return LoadedTrace(trace, truth, "twin", trace.description)


def _load_resampled(argument: str, *, seed: int, **options: Any) -> LoadedTrace:
    return resample(argument, seed=seed, load_trace=partial(load_trace, **options))


PUBLISHED_LOGS = {
    "acme": {name: f"data/job_trace/trace_{name}.csv" for name in ("seren", "kalos")},
    "helios": {
        name: f"data/{name.title()}/cluster_log.csv"
        for name in ("earth", "saturn", "uranus", "venus")
    },
    "philly": {"": "trace-data/cluster_job_log"},
}
"""Files of published logs below the root of their data set, by argument."""


def _load_published(name: str, argument: str, *, seed: int, **options: Any) -> LoadedTrace:
    files, title = PUBLISHED_LOGS.get(name, {}), f"{name}/{argument}" if argument else name
    if windowed(argument)[0] not in files:
        known = ", ".join((*(f"{name}/{one}" if one else name for one in files), f"{name}:PATH"))
        raise InputError(f"unknown trace {title}; known are {known}", field="trace")
    spec = log_of(title)
    assert spec is not None
    published = dataset(name)
    terms = {"licence": published.licence, "citation": published.citation}
    loaded = load_spec(spec, title, seed=seed, options=options, terms=terms)
    return replace(loaded, kind="original")


def _load_log(spec: LogSpec, argument: str, *, seed: int, **options: Any) -> LoadedTrace:
    del argument  # is part of the path
    short = replace(spec, path=Path(spec.path).name)
    return load_spec(spec, str(short), seed=seed, options=options)


def _load_easyscale_twin(argument: str, *, seed: int) -> LoadedTrace:
    if argument:
        rule = f"{EASYSCALE_TWIN} takes nothing behind it, got {argument!r}"
        raise InputError(rule, field="trace")
    trace, truth = easyscale_twin(seed)
    return LoadedTrace(trace, truth, "twin", trace.description)


def _load_easyscale(folder: str, argument: str, *, seed: int) -> LoadedTrace:
    del seed, argument  # an original is what it is; the path is part of the name
    trace, truth, notice = easyscale.load(folder)
    return LoadedTrace(trace, truth, "original", notice)


_EASYSCALE = "easyscale:"
"""Begins the spec of a folder with EasyScale's trace and times, which nobody may be offered."""

_WORKERS = "seconds of one worker's mini-batch by GPU type; a step on any GPUs follows"
_MODEL = "the built-in performance model"
_GAVEL_CLUSTER = "1x4:V100+1x4:P100+1x4:K80"
_SECONDS = "durations: a second is an iteration, on the requested GPUs alone"

_LOG_HOMES = {"acme": "302x8:A800-80GB", "helios": "158x8:V100", "philly": "231x8:P100+321x2:P100"}
"""Capacity of Kalos, of Venus at its largest, and of Philly; the last names no GPU type."""

FORMATS: dict[str, TraceFormat] = {
    one.name: one
    for one in (
        *(TraceFormat(name, ("",), partial(_load_twin, name), _MODEL) for name in TWINS),
        TraceFormat(
            GAVEL_TWIN,
            ("", "slo"),
            partial(_load_fair_twin, GAVEL_TWIN),
            "a table drawn like Gavel's, by GPU type, pairs included",
            _GAVEL_CLUSTER,
        ),
        TraceFormat(TIRESIAS_TWIN, ("",), partial(_load_fair_twin, TIRESIAS_TWIN), _SECONDS),
        TraceFormat(SEARCH_TWIN, ("", *ONE_SEARCH), _load_search_twin, _SECONDS, "2x4:V100"),
        *(
            TraceFormat(
                name,
                tuple(arguments),
                partial(_load_cluster_twin, name),
                _SECONDS,
                partial(twin_home, name),
                options=TWIN_OPTIONS,
            )
            for name, arguments in CLUSTER_TWINS.items()
        ),
        *(
            TraceFormat(
                name,
                tuple(PUBLISHED_LOGS.get(name, ())),
                partial(_load_published, name),
                _SECONDS,
                _LOG_HOMES.get(name),
                name if name in PUBLISHED_LOGS else None,
                LOG_OPTIONS,
                True,
            )
            for name in LOG_FORMATS
        ),
        TraceFormat(
            "morphling",
            tuple(WORKLOADS),
            _load_morphling,
            "the artifact's measured table",
            data_set="morphling",
        ),
        TraceFormat(
            "gavel",
            ("max_min_fairness", "minimize_makespan"),
            partial(_load_fair_original, "gavel"),
            "the artifact's table, by GPU type, pairs included",
            _GAVEL_CLUSTER,
            "gavel",
        ),
        TraceFormat(
            "tiresias",
            ("60", "60x10"),
            partial(_load_fair_original, "tiresias"),
            _SECONDS,
            data_set="tiresias",
        ),
        TraceFormat(EASYSCALE_TWIN, ("",), _load_easyscale_twin, _WORKERS, easyscale.HOME),
        TraceFormat(
            RESAMPLED,
            ("x1.2/as-is/naive",),
            _load_resampled,
            "as of the trace that it is drawn from",
        ),
    )
}
"""Every format that is built in, those of logs among them; a CSV file is one more, without a name.
"""


def _load_own(source: object, name: str, argument: str, *, seed: int) -> LoadedTrace:
    """What a user's own source makes."""
    contract = "source(argument, *, seed)"
    made = made_by(source, name, "trace", contract, argument, seed=seed)
    parts = ("trace", "truth", "kind", "notice")
    loaded = cast(LoadedTrace, require_parts(made, name, "trace", "LoadedTrace", parts))
    require_kind(loaded.trace, Trace, f"{name}: the part trace", "trace")
    speeds = ("name", "models", "iteration_s", "configurations")
    require_parts(loaded.truth, f"{name}: the part truth", "trace", "SpeedModel", speeds)
    return loaded


def _format_of(spec: str) -> TraceFormat | None:
    copy = spec.removeprefix(_EASYSCALE)
    if copy != spec and Path(copy).is_dir():  # one file of it is a log of gangs as they asked
        load = partial(_load_easyscale, copy)
        return TraceFormat("easyscale", ("",), load, _WORKERS, easyscale.HOME, "easyscale")
    log = LogSpec.of(spec)
    if log is not None:
        load = partial(_load_log, log)
        return TraceFormat(log.name, ("",), load, _SECONDS, options=LOG_OPTIONS, log=True)
    return FORMATS.get(spec.partition("/")[0])


def home_cluster(spec: str, **options: Any) -> str | None:
    """Short form of the cluster that a trace was made for, where the default one cannot run it.

    Raises
    ------
    InputError
        If the trace does not take one of the options, or a value is out of range.
    """
    spec = split_resampled(spec)[-1]
    known = _format_of(spec)
    options = _understood(spec, options)
    home = known.home if known is not None else None
    return home(spec.partition("/")[2], **options) if callable(home) else home


def _understood(spec: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; refuses those that the trace, or what it draws from, has not."""
    spec = split_resampled(spec)[-1]
    known = _format_of(spec)
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        if known is None or name not in known.options:
            takers = ", ".join(one.name for one in FORMATS.values() if name in one.options)
            rule = f"has no effect on trace {spec!r}; it is for {takers or 'no trace'}"
            raise InputError(rule, field=name)
        known.options[name].require(value)
    return given


def takes_seed(spec: str, jobs_as: str | None = None) -> bool:
    """Whether a seed decides anything of a trace: of a twin or a user's own source, not a file.

    Of a log only where ``jobs_as`` has its jobs drawn.
    """
    known = _format_of(spec)
    if known is None:
        return _source(spec) is not None
    return known.seeded or (known.log and jobs_as == "sampled")


def log_of(spec: str) -> LogSpec | None:
    """The log that a spec names, by path or as a published one; None if it names none."""
    name, _, argument = spec.partition("/")
    which, window = windowed(argument)
    if which in PUBLISHED_LOGS.get(name, ()):
        file = PUBLISHED_LOGS[name][which]
        return LogSpec(name, str(locate(name, file) / file), window)
    return LogSpec.of(spec)


# ---------------------------------------------------------------- files that a spec names


def trace_path(spec: str) -> str | None:
    """The file or folder that a trace is read from, as its spec has it; None for a name."""
    base = split_resampled(spec)[-1]
    if base.startswith(_EASYSCALE) and Path(base.removeprefix(_EASYSCALE)).is_dir():
        return base.removeprefix(_EASYSCALE)
    log = LogSpec.of(base)
    if log is not None:
        return log.path
    if base == STATE_TRACE or base.partition("/")[0] in FORMATS:
        return None
    return base if base.endswith(".csv") or is_file(Path(base)) else None


def with_path(spec: str, path: str) -> str:
    """A spec whose trace is read from another place."""
    old, base = trace_path(spec), split_resampled(spec)[-1]
    log = LogSpec.of(base)
    if old is None:
        return spec
    begin = spec[: len(spec) - len(base)]
    return begin + (base.replace(old, path, 1) if log is None else str(replace(log, path=path)))


def trace_files(spec: str) -> tuple[str, ...]:
    """The files that a trace is read from; none for a name."""
    path, log = trace_path(spec), LogSpec.of(split_resampled(spec)[-1])
    if log is not None:
        return tuple(map(str, Scan(Path(log.path), log.reader).reader.files()))
    if path is not None and Path(path).is_dir():
        return tuple(str(Path(path) / name) for name in (easyscale.TRACE, easyscale.OVERHEAD))
    if path is None and ":" in spec:
        _source(split_resampled(spec)[-1])  # code that a file must not name is refused here
    return () if path is None else (path,)


def absolute_spec(spec: str) -> str:
    """A spec that means the same in every folder, where it names a file."""
    path = trace_path(spec)
    return spec if path is None else with_path(spec, str(Path(path).resolve()))


def known_traces() -> tuple[str, ...]:
    """Names that `load_trace` takes without a file, entry points of other packages included."""
    names = [spec for known in FORMATS.values() for spec in known.specs]
    return (*names, *sorted(e.name for e in entry_points(group=ENTRY_POINT_GROUP)))


@checked
def load_trace(spec: str | Path, *, seed: int = 0, **options: Any) -> LoadedTrace:
    """Load a trace by name, import path or file.

    Parameters
    ----------
    spec
        ``base``, ``bp``, ``mt``, ``naive`` (twins); ``morphling/base`` and so on (originals);
        the name of an entry point of group ``morph_opt.traces`` or an import path
        ``package.module:source``, each optionally followed by ``/argument``; a log, as
        ``FORMAT:PATH`` (`morph_opt.traces.logs.registry.log_format`) or by name (``acme/seren``),
        either with a window ``@from..to`` of submissions; or the path of a CSV file in the layout
        of the Morphling workloads.
    seed
        Member of the family, for generated traces; 0 is the project's fixed twin.
    **options
        What the trace's format declares: ``jobs``, ``gpus`` and ``days`` of a cluster twin, those
        of `morph_opt.traces.options.LOG_OPTIONS` of a log. None is as not given.

    Raises
    ------
    InputError
        If the name is unknown (the known ones are listed), the data are not on this machine
        (both ways to get them are told), or a file is wrong (file, line, field and rule).
    """
    spec = str(spec)
    known = _format_of(spec)
    options = _understood(spec, options)
    source = _source(spec) if known is None else (known.load, spec.partition("/")[2])
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
    """The source that a spec names and the argument behind it, or None for a file."""
    head, _, argument = spec.partition("/")
    found = extension(ENTRY_POINT_GROUP, head) if _EXTENSION.fullmatch(head) else None
    if found is None:
        return None
    if not callable(found):
        raise InputError(f"{head} is not a trace source (not callable)", field="trace")
    return partial(_load_own, found, head), argument
