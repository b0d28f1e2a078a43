"""A finished run as what can be drawn: which jobs held which GPUs, states of nodes, counts.

Everything here is a function of a run folder (event log, jobs, rounds, config); reports, exports
and pictures draw from it and so cannot tell different stories.
"""

from typing import TYPE_CHECKING

from morph_opt.lazy import lazily

if TYPE_CHECKING:
    from morph_opt.runs.views.nodes import NodeMap, Outage
    from morph_opt.runs.views.rectangles import Rectangles
    from morph_opt.runs.views.view import RunView, distinct_names, open_run, open_runs
else:
    __getattr__ = lazily(__name__)

__all__ = [
    "NodeMap",
    "Outage",
    "Rectangles",
    "RunView",
    "distinct_names",
    "open_run",
    "open_runs",
]
