"""Replay a trace: the event engine, its run folder and its command line.

>>> from morph_opt.replay import ReplayConfig, replay
"""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.engine.config import ReplayConfig
    from morph_opt.engine.engine import Engine
    from morph_opt.engine.node_events import NodeEvent, random_failures, read_node_events
    from morph_opt.replay.result import ReplayResult
    from morph_opt.replay.run import replay
    from morph_opt.strict.check import check_allocation
    from morph_opt.strict.rules import AllocationError, StateFacts, Violation
else:
    __getattr__ = lazily(__name__)

__all__ = [
    "AllocationError",
    "Engine",
    "NodeEvent",
    "ReplayConfig",
    "ReplayResult",
    "StateFacts",
    "Violation",
    "check_allocation",
    "random_failures",
    "read_node_events",
    "replay",
]
