"""Traces: readers of published ones, generated twins, and the registry of their names."""

from morph_opt.traces.registry import LoadedTrace, TraceSource, known_traces, load_trace
from morph_opt.traces.twins import TWINS, twin

__all__ = ["TWINS", "LoadedTrace", "TraceSource", "known_traces", "load_trace", "twin"]
