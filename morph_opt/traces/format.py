"""What a trace format is: the one value that a new kind of trace adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from morph_opt.domain import Trace
from morph_opt.domain.nearest import guessing
from morph_opt.domain.options import Setting
from morph_opt.perf.speed import SpeedModel

if TYPE_CHECKING:
    from morph_opt.traces.logs.jobs import Account

Kind = Literal["twin", "original", "file"]

STATE_TRACE = "state"
"""The trace of a replay in which no job arrives behind the state that it begins with."""


@guessing
@dataclass(frozen=True, slots=True, repr=False)
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
    account
        What was read, dropped, assumed and changed, of a log; None for other traces.
    first_start_s
        Start-up of a first start, where run times contain it; None for that of the engine.
    notice
        One line for the user; says of a twin that it is a statistical twin, not the original.
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
    """Extension point: turns the part of a spec behind the source's name into a trace."""

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
        Head of a spec, ``name`` or ``name/argument``.
    arguments
        What may stand behind it and is listed; "" for the name alone.
    load
        From argument, seed and options to jobs and speeds: a `TraceSource` that also takes the
        options, by name, that it declares.
    speeds
        How speeds attach to the jobs, in words.
    home
        Short form of the cluster that it was made for, or what makes it from argument and
        options; None for the default one.
    data_set
        What has to be on this machine; None for generated traces.
    options
        Its options, and what each may be; whatever is not here is refused.
    log
        Whether it is a log: its readers are in `morph_opt.traces.logs.registry.LOG_FORMATS`.
    """

    name: str
    arguments: tuple[str, ...]
    load: Callable[..., LoadedTrace]
    speeds: str
    home: str | Callable[..., str] | None = None
    data_set: str | None = None
    options: Mapping[str, Setting] = field(default_factory=dict)
    log: bool = False

    @property
    def seeded(self) -> bool:
        """Whether a seed decides anything of it: an original is what it is, and so is a log."""
        return self.data_set is None and not self.log

    @property
    def specs(self) -> tuple[str, ...]:
        """The traces that are listed, as `morph_opt.traces.load_trace` takes them."""
        return tuple(f"{self.name}/{one}" if one else self.name for one in self.arguments)
