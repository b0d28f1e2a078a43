"""Traces: readers of published ones, generated twins, and the registry of their names."""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.traces.format import LoadedTrace, TraceFormat, TraceSource
    from morph_opt.traces.registry import FORMATS, known_traces, load_trace
    from morph_opt.traces.twins.morphling import TWINS, twin
else:
    __getattr__ = lazily(__name__)

__all__ = [
    "FORMATS",
    "TWINS",
    "LoadedTrace",
    "TraceFormat",
    "TraceSource",
    "known_traces",
    "load_trace",
    "twin",
]
