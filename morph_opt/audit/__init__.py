"""Gap between a scheduler's rounds and the proven optimum, from its log alone."""

from typing import Final

RUN: Final = "run"
"""Word before the path of a run folder, in the place of a log's format."""
