"""Arguments of command lines that read logs."""

from __future__ import annotations

import argparse

from morph_opt.core.commandline.options import add_options, given_options
from morph_opt.inputs.traces.logs.reading.row import Reading
from morph_opt.inputs.traces.options import ReadingOptions


def add_reading(group: argparse._ActionsContainer) -> None:
    """Add the options of how a log is read."""
    add_options(group, ReadingOptions)


def reading_of(given: argparse.Namespace) -> Reading:
    """Return how to read a log, by the options of `add_reading`."""
    return Reading(**given_options(given, ReadingOptions))
