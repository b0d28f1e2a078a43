"""Load the jobs of a workload, with their true speeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.domain import InputError, Trace
from morph_opt.inputs.perf.speed import SpeedModel
from morph_opt.inputs.traces.format import STATE_TRACE
from morph_opt.replay.initial import continued
from morph_opt.replay.workload import Workload
from morph_opt.round.reader import read_snapshot

if TYPE_CHECKING:
    from morph_opt.inputs.traces.format import LoadedTrace
    from morph_opt.round.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Loaded:
    """Jobs and true speeds of a workload, and the state to begin with.

    Parameters
    ----------
    source
        Jobs, speeds, and where they come from.
    snapshot
        State to begin with; None if there is none.
    """

    source: LoadedTrace
    snapshot: Snapshot | None = None

    @property
    def trace(self) -> Trace:
        """All jobs, those included that can never run."""
        return self.source.trace

    @property
    def truth(self) -> SpeedModel:
        """Speeds by which jobs advance."""
        return self.source.truth


def load(workload: Workload, given: str | Trace | LoadedTrace) -> Loaded:
    """Load the jobs of a workload with their true speeds, and its state if it has one.

    Parameters
    ----------
    workload
        The workload.
    given
        Its trace: name, file or value.

    Raises
    ------
    InputError
        If trace or state cannot be read, or do not fit together.
    """
    from morph_opt.inputs.traces.format import LoadedTrace

    if workload.state is None:
        return Loaded(_traced(workload, given))
    snapshot = read_snapshot(workload.state)
    state, name = snapshot.state, Path(workload.state).name
    notice = f"{name}: from {state.time_s:g} s on, with {len(state.jobs)} jobs"
    try:
        if workload.trace == STATE_TRACE:
            trace = continued(state, (), name, notice)
            return Loaded(LoadedTrace(trace, snapshot.speeds, "file", notice), snapshot)
        source = _traced(workload, given)
        full = source.trace
        trace = continued(state, full.jobs, full.name, full.description, full.searches)
    except InputError as error:
        if error.field != "state":
            raise
        raise error.located(file=workload.state) from error
    return Loaded(replace(source, trace=trace, notice=f"{source.notice}; {notice}"), snapshot)


def _traced(workload: Workload, given: str | Trace | LoadedTrace) -> LoadedTrace:
    """Load a trace; a value that is jobs alone gets the speeds of the built-in model."""
    from morph_opt.inputs.traces.format import LoadedTrace
    from morph_opt.inputs.traces.registry import load_trace

    if isinstance(given, str):
        return load_trace(given, seed=workload.seed, **workload.trace_options)
    if isinstance(given, LoadedTrace):
        return given
    from morph_opt.inputs.perf.analytic.zoo import builtin_model

    notice = f"{given.name}: your jobs, speeds of the built-in performance model"
    return LoadedTrace(given, builtin_model(), "file", notice)
