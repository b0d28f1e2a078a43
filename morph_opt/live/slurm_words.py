"""Commands of Slurm for intents.

Start, place and shape are one command, for a job that nothing but that command can start: given
nodes for a job that runs there, Slurm takes them for those that it is to keep, gives up its others,
and only then finds that it waits no more.
"""

from __future__ import annotations

from datetime import UTC, datetime

from morph_opt.live.intents import Intent, Park, Prioritise, Shape, Start, Stop
from morph_opt.live.picture import PARKED, RANKED, STARTED, STOPPED
from morph_opt.live.scheduler import Command


def words_of(intent: Intent, time_s: float) -> tuple[Command, ...]:
    """Return the commands of an intent; times are in UTC."""
    job = intent.job
    if isinstance(intent, Start):
        where = (f"ReqNodeList={','.join(intent.nodes)}",)
        shape = () if intent.shape is None else _shape(intent.shape)
        mark = f"AdminComment={STARTED}@{time_s:.0f}"
        first = words_of(Park(job, intent.park_s), time_s) if intent.park_s else ()
        return (*first, _update(job, *shape, *where, "StartTime=now", mark))
    if isinstance(intent, Stop):
        marked = _update(job, f"AdminComment={STOPPED}@{time_s:.0f}")
        # ``Incomplete`` keeps a job that has just ended from running again.
        return marked, ("scontrol", "requeue", "Incomplete", job)
    if isinstance(intent, Park):
        begin = f"StartTime={datetime.fromtimestamp(intent.until_s, UTC):%Y-%m-%dT%H:%M:%S}"
        return (_update(job, begin, "ReqNodeList=", f"AdminComment={PARKED}@{intent.until_s}"),)
    if isinstance(intent, Prioritise):
        mark = f"AdminComment={RANKED}@{time_s:.0f}"
        return (_update(job, f"Priority={intent.priority}", mark),)
    back = ("StartTime=now", "ReqNodeList=") if intent.waits else ()
    found: tuple[Command, ...] = (_update(job, *back, "AdminComment="),)
    if intent.waits and intent.ranked:
        found += (("scontrol", "release", job),)
    return found


def _shape(shape: Shape) -> tuple[str, ...]:
    nodes = shape.nodes
    if shape.by_node:
        each = f"TresPerNode=gres:gpu:{shape.gpus // nodes}"
        return f"NumNodes={nodes}-{nodes}", f"NumTasks={nodes}", f"NumCPUs={nodes}", each
    return f"NumNodes={nodes}-{nodes}", f"TresPerJob=gres:gpu:{shape.gpus}"


def _update(job: str, *words: str) -> Command:
    return ("scontrol", "update", f"JobId={job}", *words)
