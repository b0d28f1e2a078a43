"""Logs of clusters: readers of many formats, a linter, and jobs that a replay takes."""

from morph_opt.traces.logs.format import LogFormat
from morph_opt.traces.logs.registry import LOG_FORMATS, log_format
from morph_opt.traces.logs.report import Report
from morph_opt.traces.logs.row import REASONS, LogRow, Reading
from morph_opt.traces.logs.scan import Scan

__all__ = [
    "LOG_FORMATS",
    "REASONS",
    "LogFormat",
    "LogRow",
    "Reading",
    "Report",
    "Scan",
    "log_format",
]
