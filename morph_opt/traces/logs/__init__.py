"""Logs of clusters: readers of many formats, a linter, and jobs that a replay takes."""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.traces.logs.reading.reader import JsonReader, Reader, TableReader
    from morph_opt.traces.logs.reading.report import Report
    from morph_opt.traces.logs.reading.row import REASONS, LogRow, Reading
    from morph_opt.traces.logs.reading.scan import Scan
    from morph_opt.traces.logs.registry import LOG_FORMATS, log_format
else:
    __getattr__ = lazily(__name__)

__all__ = [
    "LOG_FORMATS",
    "REASONS",
    "JsonReader",
    "LogRow",
    "Reader",
    "Reading",
    "Report",
    "Scan",
    "TableReader",
    "log_format",
]
