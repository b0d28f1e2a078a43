"""Replay a trace: the event engine, its run folder and its command line.

>>> from morph_opt.replay import ReplayConfig, replay
"""

from morph_opt.replay.api import ReplayResult, RunExtras, replay
from morph_opt.replay.config import ReplayConfig
from morph_opt.replay.engine import Engine
from morph_opt.replay.node_events import NodeEvent, random_failures, read_node_events
from morph_opt.replay.strict import AllocationError, Standing, Violation, check_allocation

__all__ = [
    "AllocationError",
    "Engine",
    "NodeEvent",
    "ReplayConfig",
    "ReplayResult",
    "RunExtras",
    "Standing",
    "Violation",
    "check_allocation",
    "random_failures",
    "read_node_events",
    "replay",
]
