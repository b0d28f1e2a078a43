"""Trace formats: the value by which a kind of trace is known, and the loaded trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from morph_opt.core.domain import InputError, Trace
from morph_opt.core.domain.options import Setting
from morph_opt.inputs.data import is_published
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.logs.reading.report import Account

Kind = Literal["twin", "original", "file"]

STATE_TRACE = "state"
"""Name of the trace without arrivals, for replays that begin with a state."""

MODEL = "the built-in performance model"
SECONDS = "durations: a second is an iteration, on the requested GPUs alone"
WORKERS = "seconds of one worker's mini-batch by GPU type; a step on any GPUs follows"
"""Descriptions of the source of a format's speeds."""


@dataclass(frozen=True, slots=True, repr=False)
class LoadedTrace:
    """Trace with the true speeds of its jobs.

    Parameters
    ----------
    trace
        The jobs.
    truth
        Speed model by which the replay advances them.
    kind
        ``"twin"`` (generated), ``"original"`` (published) or ``"file"`` (the user's).
    account
        Account of a log: read, dropped, assumed, changed; None for other traces.
    first_start_s
        Start-up of a first start, where run times contain it; None for that of the engine.
    notice
        One line for the user; of a twin, that it is no original.
    clock_s
        Instant of a log's own clock at which the trace's second 0 is.
    """

    trace: Trace
    truth: SpeedModel
    kind: Kind
    notice: str
    account: Account | None = None
    first_start_s: float | None = None
    clock_s: float = 0.0

    def __repr__(self) -> str:
        return f"<LoadedTrace {self.trace.name} ({self.kind}): {len(self.trace.jobs)} jobs>"


class TraceSource(Protocol):
    """Extension point: turns the text after the source's name into a trace."""

    def __call__(self, argument: str, *, seed: int) -> LoadedTrace:
        """Load the trace that ``argument`` names (``""`` when the spec is the name alone).

        Raises
        ------
        InputError
            For everything that a user can cause.
        """
        ...


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """A kind of trace that is built in.

    Parameters
    ----------
    name
        Head of a spec: ``name``, ``name/argument``, or ``name:path`` with `paths`.
    arguments
        The arguments that are listed; "" for the name alone.
    load
        From argument, seed and options to jobs and speeds: a `TraceSource` that also takes the
        options, by name, that it declares. With `paths`, the argument is the path.
    speeds
        Description of how speeds attach to the jobs.
    home
        Short form of the cluster that it was made for, or a function from argument and options
        to it; None for the default cluster.
    data_set
        Data set that has to be on this machine; None for generated traces.
    options
        Its options with their ranges; all others are refused.
    log
        Whether it is a log: its readers are in `morph_opt.inputs.traces.logs.registry.LOG_FORMATS`.
    paths
        Function from the text after ``name:`` to the files or folders that it names, none if
        they are not of this format; None if the format takes no path.
    files
        Function from a path to the files that are read there; None for the path alone.
    """

    name: str
    arguments: tuple[str, ...]
    load: Callable[..., LoadedTrace]
    speeds: str
    home: str | Callable[..., str] | None = None
    data_set: str | None = None
    options: Mapping[str, Setting] = field(default_factory=dict)
    log: bool = False
    paths: Callable[[str], tuple[str, ...]] | None = None
    files: Callable[[str], tuple[str, ...]] | None = None

    @property
    def seeded(self) -> bool:
        """Whether a seed changes the trace; False for originals, logs and files."""
        return self.data_set is None and not self.log and self.paths is None

    @property
    def specs(self) -> tuple[str, ...]:
        """Specs of the listed traces for `traces.registry.load_trace`."""
        return tuple(f"{self.name}/{one}" if one else self.name for one in self.arguments)


def of_data_set(
    name: str, spec: str, trace: Trace, truth: SpeedModel, files: Iterable[Path]
) -> LoadedTrace:
    """Return a trace of a data set: "original" only if its files are the published ones.

    Parameters
    ----------
    name, spec
        Data set and spec.
    trace, truth
        Jobs and speeds.
    files
        Files that both were read from.
    """
    if is_published(name, files):
        return LoadedTrace(trace, truth, "original", trace.description)
    notice = f"{spec}: your files in the layout of data set {name}, not the published ones"
    return LoadedTrace(replace(trace, description=notice), truth, "file", notice)


def require_listed(name: str, argument: str, listed: Iterable[str]) -> None:
    """Refuse an argument that a trace does not list.

    Raises
    ------
    InputError
        Naming the arguments that it takes.
    """
    listed = tuple(listed)
    if argument not in listed:
        may = " or ".join(one or "no argument" for one in listed)
        raise InputError(f"{name} takes {may}, got {argument!r}", field="trace")


def generated(
    name: str,
    draw: Callable[..., tuple[Trace, SpeedModel]],
    speeds: str,
    home: str | Callable[..., str] | None = None,
    *,
    arguments: tuple[str, ...] = ("",),
    options: Mapping[str, Setting] | None = None,
    others: bool = False,
) -> TraceFormat:
    """Return the format of a generated twin.

    Parameters
    ----------
    name, speeds, home, arguments, options
        Fields of `TraceFormat`.
    draw
        From argument (unless none is listed), seed and options to jobs and speeds.
    others
        Whether ``draw`` takes arguments that are not listed, and refuses wrong ones itself.
    """

    def load(argument: str, *, seed: int, **options: Any) -> LoadedTrace:
        if not others:
            require_listed(name, argument, arguments)
        given = () if arguments == ("",) else (argument,)
        trace, truth = draw(*given, seed=seed, **options)
        return LoadedTrace(trace, truth, "twin", trace.description)

    return TraceFormat(name, arguments, load, speeds, home, options=options or {})
