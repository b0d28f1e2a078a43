"""Small finished runs to draw: moved jobs with a failure, a pair, and hostile names."""

from __future__ import annotations

from pathlib import Path

from morph_opt.core.domain import Trace
from morph_opt.replay.run import replay
from morph_opt.simulation.engine.config import ReplayConfig
from morph_opt.simulation.engine.node_events import NodeEvent
from morph_opt.simulation.events.log import NodeStatus
from tests.engine.packing_toys import PairedToys, pair
from tests.engine.toys import Fifo, Scripted, Shuffler, ToySpeeds, cluster, hold, job, random_trace

LABELS = {"objective": None, "solver": None, "wall_s": 1.0, "peak_rss_mib": 50.0}

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "quotes ' \" & ` ${x} {{y}} @z",
    "\u05d0\u05d1\u05d2 \u0645\u0631\u062d\u0628\u0627",  # right to left
    "a,b;c|d#e",
    "long " + "x" * 990,
)
"""Names that a trace may give its jobs."""


def moved(out: Path, *, seed: int = 1, failures: bool = True) -> Path:
    """Jobs that are preempted, moved and stopped by a node that fails for half an hour."""
    events = [
        NodeEvent(750.0, 1, NodeStatus.FAILED),
        NodeEvent(2700.0, 1, NodeStatus.UP),
    ]
    config = ReplayConfig(restart_s=30.0, lost_work_s=5.0)
    replay(
        random_trace(5, 12),
        cluster(2, 4),
        Shuffler(seed=seed),
        ToySpeeds(),
        config,
        out=out,
        node_events=events if failures else (),
    )
    return out


def paired(out: Path) -> Path:
    """a alone from 60; b comes to it at 120 and is complete at 230; a is at 302.

    By hand in tests/replay/test_packing.py.
    """
    trace = Trace.of("two", [job("a", 0.0, 100), job("b", 70.0, 60, model="n")])
    script = {0: [hold("a", {0: [0]})], 1: pair("a", "b", {0: [0]})}
    speeds = PairedToys({"m": 2.0, "n": 1.0}, counts=(1, 2))
    config = ReplayConfig(interval_s=60.0, restart_s=20.0)
    replay(trace, cluster(1, 2), Scripted(script), speeds, config, out=out)
    return out


def hostile(out: Path) -> Path:
    """Jobs with names that mean something to HTML, CSV, shells or terminals."""
    jobs = [
        job(name, 10.0 * place, 50, 1, tenant=f"<b>{place}</b>", model=f"<i>{place % 2}")
        for place, name in enumerate(HOSTILE)
    ]
    speeds = ToySpeeds({"<i>0": 8.0, "<i>1": 4.0})
    trace = Trace.of("<u>trace</u>", jobs)
    replay(trace, cluster(2, 4), Fifo(), speeds, ReplayConfig(restart_s=20.0), out=out)
    return out
