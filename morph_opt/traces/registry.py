"""`load_trace`: from what a user types to a trace and the speeds that its jobs truly have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal, Protocol, cast

from morph_opt.data import locate
from morph_opt.documents import exists
from morph_opt.domain import InputError, Trace
from morph_opt.extend import extension, made_by, require_parts
from morph_opt.perf.analytic.zoo import builtin_model
from morph_opt.perf.speed import SpeedModel
from morph_opt.traces import gavel, tiresias
from morph_opt.traces.gavel_twin import GAVEL_TWIN, gavel_twin
from morph_opt.traces.morphling import WORKLOADS, read_tables, read_workload
from morph_opt.traces.tiresias_twin import TIRESIAS_TWIN, tiresias_twin
from morph_opt.traces.twins import TWINS, twin

ENTRY_POINT_GROUP = "morph_opt.traces"
"""Entry points of this group are trace sources under their own name."""

_EXTENSION = re.compile(r"[\w.-]{1,200}(:\w{1,200})?")


@dataclass(frozen=True, slots=True)
class LoadedTrace:
    """A trace with the speeds that its jobs truly have.

    Parameters
    ----------
    trace
        The jobs.
    truth
        Speed model by which the replay advances them.
    kind
        ``"twin"`` (generated), ``"original"`` (published) or ``"file"`` (the user's).
    notice
        One line for the user; says of a twin that it is a statistical twin, not the original.
    """

    trace: Trace
    truth: SpeedModel
    kind: Literal["twin", "original", "file"]
    notice: str


class TraceSource(Protocol):
    """Extension point: turns the part of a spec behind the source's name into a trace."""

    def __call__(self, argument: str, *, seed: int) -> LoadedTrace:
        """Load the trace that ``argument`` names (``""`` when the spec is the name alone).

        Raises
        ------
        InputError
            For everything that a user can cause.
        """
        ...


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


def _load_fair_original(name: str, argument: str, *, seed: int) -> LoadedTrace:
    del seed  # an original is what it is
    reader = gavel.load if name == "gavel" else tiresias.load
    trace, truth, notice = reader(locate(name), argument)
    return LoadedTrace(trace, truth, "original", notice)


GAVEL_CLUSTER = "1x4:V100+1x4:P100+1x4:K80"
"""Cluster of Gavel's 96-job trace."""

FAIR_TWINS = (GAVEL_TWIN, TIRESIAS_TWIN)
"""Twins of Gavel's and Tiresias' workloads."""

_BUILT_IN: dict[str, TraceSource] = {
    **{name: partial(_load_twin, name) for name in TWINS},
    **{name: partial(_load_fair_twin, name) for name in FAIR_TWINS},
    **{name: partial(_load_fair_original, name) for name in ("gavel", "tiresias")},
    "morphling": _load_morphling,
}


def _load_own(source: object, name: str, argument: str, *, seed: int) -> LoadedTrace:
    """What a user's own source makes."""
    contract = "source(argument, *, seed)"
    made = made_by(source, name, "trace", contract, argument, seed=seed)
    parts = ("trace", "truth", "kind", "notice")
    return cast(LoadedTrace, require_parts(made, name, "trace", "LoadedTrace", parts))


def home_cluster(spec: str) -> str | None:
    """Short form of the cluster that a trace was made for, where the default one cannot run it.

    Gavel's speeds are of K80, P100 and V100: its simulated cluster of 4 + 4 + 4.
    """
    return GAVEL_CLUSTER if spec.partition("/")[0] in (GAVEL_TWIN, "gavel") else None


def takes_seed(spec: str) -> bool:
    """Whether a seed decides anything of a trace: of a twin or a user's own source, not a file."""
    head = spec.partition("/")[0]
    if head in _BUILT_IN:
        return head in (*TWINS, *FAIR_TWINS)
    return _source(spec) is not None


def known_traces() -> tuple[str, ...]:
    """Names that `load_trace` takes without a file, entry points of other packages included."""
    names = (*TWINS, *FAIR_TWINS, *(f"morphling/{name}" for name in WORKLOADS))
    names += (f"{GAVEL_TWIN}/slo",)
    names += ("gavel/max_min_fairness", "gavel/minimize_makespan", "tiresias/60", "tiresias/60x10")
    return (*names, *sorted(e.name for e in entry_points(group=ENTRY_POINT_GROUP)))


def load_trace(spec: str, *, seed: int = 0) -> LoadedTrace:
    """Load a trace by name, import path or file.

    Parameters
    ----------
    spec
        ``base``, ``bp``, ``mt``, ``naive`` (twins); ``morphling/base`` and so on (originals);
        the name of an entry point of group ``morph_opt.traces`` or an import path
        ``package.module:source``, each optionally followed by ``/argument``; or the path of a
        CSV file in the layout of the Morphling workloads.
    seed
        Member of the family, for generated traces; 0 is the project's fixed twin.

    Raises
    ------
    InputError
        If the name is unknown (the known ones are listed), the data are not on this machine
        (both ways to get them are told), or a file is wrong (file, line, field and rule).
    """
    source = _source(spec)
    if source is not None:
        return source[0](source[1], seed=seed)
    path = Path(spec)
    if path.suffix == ".csv" or (exists(path) and not path.is_dir()):
        return _load_file(path)
    raise InputError(
        f"unknown trace {spec!r}; known are {', '.join(known_traces())}, or give a CSV file",
        field="trace",
    )


def _source(spec: str) -> tuple[TraceSource, str] | None:
    """The source that a spec names and the argument behind it, or None for a file."""
    head, _, argument = spec.partition("/")
    if head in _BUILT_IN:
        return _BUILT_IN[head], argument
    found = extension(ENTRY_POINT_GROUP, head) if _EXTENSION.fullmatch(head) else None
    if found is None:
        return None
    if not callable(found):
        raise InputError(f"{head} is not a trace source (not callable)", field="trace")
    return partial(_load_own, found, head), argument
