"""Logs of clusters: readers of many formats, a linter, and jobs that a replay takes."""

from morph_opt.traces.logs.reading.format import LogFormat
from morph_opt.traces.logs.reading.report import Report
from morph_opt.traces.logs.reading.row import REASONS, LogRow, Reading
from morph_opt.traces.logs.reading.scan import Scan
from morph_opt.traces.logs.registry import LOG_FORMATS, log_format

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
