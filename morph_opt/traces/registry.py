"""`load_trace`: from what a user types to a trace and the speeds that its jobs truly have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from morph_opt.data import dataset, locate
from morph_opt.documents import exists
from morph_opt.domain import InputError
from morph_opt.extend import extension, made_by, require_parts
from morph_opt.perf.analytic.zoo import builtin_model
from morph_opt.traces import easyscale, gavel, tiresias
from morph_opt.traces.cluster_twins import (
    CLUSTER_TWINS,
    OPTIONS,
    cluster_twin,
    twin_home,
)
from morph_opt.traces.format import LoadedTrace, TraceFormat
from morph_opt.traces.logs.options import LOG_OPTIONS, LogSpec, load_spec, windowed
from morph_opt.traces.morphling import WORKLOADS, read_tables, read_workload
from morph_opt.traces.resampled import RESAMPLED, resample, split_resampled
from morph_opt.traces.twins.easyscale import EASYSCALE_TWIN, easyscale_twin
from morph_opt.traces.twins.gavel import GAVEL_TWIN, gavel_twin
from morph_opt.traces.twins.morphling import TWINS, twin
from morph_opt.traces.twins.search import ONE_SEARCH, SEARCH_TWIN, search_twin
from morph_opt.traces.twins.tiresias import TIRESIAS_TWIN, tiresias_twin

ENTRY_POINT_GROUP = "morph_opt.traces"
"""Entry points of this group are trace sources under their own name."""

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
        raise InputError(
            f"unknown trace {name!r}; known are {', '.join(known_traces())}", field="trace"
        )
    root = locate("morphling")
    table = read_tables(root)
    notice = f"{name}: original trace of the public Morphling artifact, speeds as measured there"
    path = root / "simulator" / "workloads" / WORKLOADS[argument]
    trace = read_workload(path, name=name, models=table.models(), description=notice)
    return LoadedTrace(trace, table, "original", notice)


def _load_file(path: Path) -> LoadedTrace:
    truth = builtin_model()
    notice = f"{path.name}: your file, speeds of the built-in performance model"
    trace = read_workload(path, name=path.name, models=truth.models(), description=notice)
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
    which, _ = windowed(argument)
    files = PUBLISHED_LOGS[name]
    if which not in files:
        known = ", ".join(f"{name}/{one}" if one else name for one in files)
        raise InputError(f"unknown trace {name}/{which}; known are {known}", field="trace")
    title = f"{name}/{argument}" if argument else name
    spec = log_of(title)
    assert spec is not None
    published = dataset(name)
    terms = {"licence": published.licence, "citation": published.citation}
    loaded = load_spec(spec, title, seed=seed, options=options, terms=terms)
    return replace(loaded, kind="original")


def _load_log(spec: LogSpec, argument: str, *, seed: int, **options: Any) -> LoadedTrace:
    del argument  # is part of the path
    name = f"{spec.format}:{Path(spec.path).name}"
    window = "" if spec.window is None else f"@{spec.window}"
    return load_spec(spec, name + window, seed=seed, options=options)


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

_LOG_HOMES = ("302x8:A800-80GB", "158x8:V100", "231x8:P100+321x2:P100")
"""Capacity of Kalos, of Venus at its largest, and of Philly; the last names no GPU type."""

FORMATS: dict[str, TraceFormat] = {
    one.name: one
    for one in (
        *(TraceFormat(name, ("",), partial(_load_twin, name), _MODEL) for name in TWINS),
        TraceFormat(
            GAVEL_TWIN, ("", "slo"), partial(_load_fair_twin, GAVEL_TWIN),
            "a table drawn like Gavel's, by GPU type, pairs included", _GAVEL_CLUSTER,
        ),
        TraceFormat(TIRESIAS_TWIN, ("",), partial(_load_fair_twin, TIRESIAS_TWIN), _SECONDS),
        TraceFormat(SEARCH_TWIN, ("", *ONE_SEARCH), _load_search_twin, _SECONDS, "2x4:V100"),
        *(
            TraceFormat(
                name, tuple(arguments), partial(_load_cluster_twin, name), _SECONDS,
                partial(twin_home, name), options=OPTIONS,
            )
            for name, arguments in CLUSTER_TWINS.items()
        ),
        *(
            TraceFormat(
                name, tuple(files), partial(_load_published, name), _SECONDS, home,
                data_set=name, options=LOG_OPTIONS,
            )
            for (name, files), home in zip(PUBLISHED_LOGS.items(), _LOG_HOMES, strict=True)
        ),
        TraceFormat(
            "morphling", tuple(WORKLOADS), _load_morphling, "the artifact's measured table",
            data_set="morphling",
        ),
        TraceFormat(
            "gavel", ("max_min_fairness", "minimize_makespan"),
            partial(_load_fair_original, "gavel"),
            "the artifact's table, by GPU type, pairs included", _GAVEL_CLUSTER, "gavel",
        ),
        TraceFormat(
            "tiresias", ("60", "60x10"), partial(_load_fair_original, "tiresias"), _SECONDS,
            data_set="tiresias",
        ),
        TraceFormat(
            EASYSCALE_TWIN, ("",), _load_easyscale_twin, _WORKERS, easyscale.HOME
        ),
        TraceFormat(
            RESAMPLED, ("x1.2/as-is/naive",), _load_resampled,
            "as of the trace that it is drawn from",
        ),
    )
}  # fmt: skip
"""Every format that is built in; a CSV file is one more, without a name."""


def _load_own(source: object, name: str, argument: str, *, seed: int) -> LoadedTrace:
    """What a user's own source makes."""
    contract = "source(argument, *, seed)"
    made = made_by(source, name, "trace", contract, argument, seed=seed)
    parts = ("trace", "truth", "kind", "notice")
    return cast(LoadedTrace, require_parts(made, name, "trace", "LoadedTrace", parts))


def _format_of(spec: str) -> TraceFormat | None:
    copy = spec.removeprefix(_EASYSCALE)
    if copy != spec and Path(copy).is_dir():  # one file of it is a log of gangs as they asked
        load = partial(_load_easyscale, copy)
        return TraceFormat("easyscale", ("",), load, _WORKERS, easyscale.HOME, "easyscale")
    log = LogSpec.of(spec)
    if log is not None:
        return TraceFormat(
            log.format, ("",), partial(_load_log, log), _SECONDS, options=LOG_OPTIONS
        )
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
        known.options[name].require(name, value)
    return given


def takes_seed(spec: str, jobs_as: str | None = None) -> bool:
    """Whether a seed decides anything of a trace: of a twin or a user's own source, not a file.

    Of a log only where ``jobs_as`` has its jobs drawn.
    """
    known = _format_of(spec)
    if known is not None and known.options is LOG_OPTIONS:
        return jobs_as == "sampled"
    return known.seeded if known is not None else _source(spec) is not None


def log_of(spec: str) -> LogSpec | None:
    """The log that a spec names, by path or as a published one; None if it names none."""
    name, _, argument = spec.partition("/")
    which, window = windowed(argument)
    if name in PUBLISHED_LOGS and which in PUBLISHED_LOGS[name]:
        file = PUBLISHED_LOGS[name][which]
        return LogSpec(name, str(locate(name, file) / file), window)
    return LogSpec.of(spec)


def absolute_spec(spec: str) -> str:
    """A spec that means the same in every folder, where it names a log by its path."""
    if spec.startswith(_EASYSCALE):
        return _EASYSCALE + str(Path(spec.removeprefix(_EASYSCALE)).resolve())
    log = LogSpec.of(spec)
    return spec if log is None else log.absolute()


def known_traces() -> tuple[str, ...]:
    """Names that `load_trace` takes without a file, entry points of other packages included."""
    names = [spec for known in FORMATS.values() for spec in known.specs]
    return (*names, *sorted(e.name for e in entry_points(group=ENTRY_POINT_GROUP)))


def load_trace(spec: str, *, seed: int = 0, **options: Any) -> LoadedTrace:
    """Load a trace by name, import path or file.

    Parameters
    ----------
    spec
        ``base``, ``bp``, ``mt``, ``naive`` (twins); ``morphling/base`` and so on (originals);
        the name of an entry point of group ``morph_opt.traces`` or an import path
        ``package.module:source``, each optionally followed by ``/argument``; a log, as
        ``FORMAT:PATH`` or by name (``acme/seren``), either with a window ``@from..to`` of
        submissions; or the path of a CSV file in the layout of the Morphling workloads.
    seed
        Member of the family, for generated traces; 0 is the project's fixed twin.
    **options
        What the trace's format declares: ``jobs``, ``gpus`` and ``days`` of a cluster twin, those
        of `morph_opt.traces.logs.options.LOG_OPTIONS` of a log. None is as not given.

    Raises
    ------
    InputError
        If the name is unknown (the known ones are listed), the data are not on this machine
        (both ways to get them are told), or a file is wrong (file, line, field and rule).
    """
    known = _format_of(spec)
    options = _understood(spec, options)
    source = _source(spec) if known is None else (known.load, spec.partition("/")[2])
    if source is not None:
        return source[0](source[1], seed=seed, **options)
    path = Path(spec)
    if path.suffix == ".csv" or (exists(path) and not path.is_dir()):
        return _load_file(path)
    raise InputError(
        f"unknown trace {spec!r}; known are {', '.join(known_traces())}, or give a CSV file",
        field="trace",
    )


def _source(spec: str) -> tuple[Callable[..., LoadedTrace], str] | None:
    """The source that a spec names and the argument behind it, or None for a file."""
    head, _, argument = spec.partition("/")
    found = extension(ENTRY_POINT_GROUP, head) if _EXTENSION.fullmatch(head) else None
    if found is None:
        return None
    if not callable(found):
        raise InputError(f"{head} is not a trace source (not callable)", field="trace")
    return partial(_load_own, found, head), argument
