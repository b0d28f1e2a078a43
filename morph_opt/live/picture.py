"""Pictures of a Slurm cluster: the answers of one turn as values.

A job that is to wait is parked by a begin time, never by a hold: a hold is always a person's. Our
mark in the admin comment, which users cannot write, has the instant that we set: another begin time
is a person's, too. A controller that dies leaves nothing that does not start by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from morph_opt.core.documents import Fields
from morph_opt.core.domain import InputError
from morph_opt.live.settings import Settings
from morph_opt.round.live.build import Live
from morph_opt.round.live.slurm import slurm_round
from morph_opt.round.live.slurm_fields import hosts, number, texts, words
from morph_opt.round.live.slurm_jobs import array_of, gpus_once_held

OURS = "morph:"
PARKED, STARTED, STOPPED, RANKED = (f"{OURS}{w}" for w in ("parked", "started", "stopped", "rank"))
LEASE_NAME = "morph-lease"
REQUEUE_S = 125.0
"""Longest delay in seconds that Slurm itself sets before a requeued job may begin."""

_WAITS, _RUNS = "waiting", "running"
_ENDS = frozenset(("COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED", "SUSPENDED"))
_DEAD = frozenset(("DOWN", "NOT_RESPONDING", "FAIL", "POWERED_DOWN", "UNKNOWN", "ERROR"))
_CHANGING = attrgetter(
    "name", "phase", "held", "comment", "partition", "nodes", "start_s", "begin_s", "pinned",
    "back", "stuck",
)  # fmt: skip
"""Attributes of jobs whose change is a reason to decide anew."""
_CONFIG = re.compile(r"^([A-Za-z_]+) *= *(.*?)(?: sec)?$", re.MULTILINE)
_AS_OF = re.compile(r"Configuration data as of (\S+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """Job as the scheduler reports it.

    Parameters
    ----------
    name, user, partition
        Number as the round calls it, owner, partitions as listed.
    phase
        ``waiting``, ``starting``, ``running``, ``ending`` or, for jobs that are over, Slurm's word
        in lower case.
    comment, mark
        The user's words, and ours (the admin comment).
    held
        Whether a person holds it back (priority 0).
    priority, begin_s, submit_s, start_s, end_s
        Values of Slurm: priority, and instants, 0 for none.
    requeue, restarts
        Whether it may be requeued, and how often it was.
    pinned
        Nodes that it must run on, ours included.
    nodes
        Nodes that it runs on, or ran on last.
    special
        Reason to leave the job alone; "" for a plain job.
    asked_nodes, by_node
        Requested nodes, and whether GPUs are requested by node instead of in all.
    gated
        Whether it waits until it is let go, however long, so that it need not be parked.
    back, stuck
        Whether we stopped it and all of it ends or has ended, so that it may wait again; and
        whether we started it long ago and the scheduler found no room.
    rest
        Whether it is what is missing of a job that runs, and no job of its own.
    gpus_held
        GPUs that an ended job had on ``nodes``; 0 if it never ran or they are unknown.
    limit_s
        Time that a run of it may take; None without a limit.
    """

    name: str
    user: str
    partition: str
    phase: str
    comment: str
    mark: str
    held: bool
    priority: float
    begin_s: float
    submit_s: float
    start_s: float
    end_s: float
    requeue: bool
    restarts: int
    pinned: tuple[str, ...]
    nodes: tuple[str, ...]
    special: str
    asked_nodes: int = 1
    by_node: bool = False
    gated: bool = False
    back: bool = False
    stuck: bool = False
    rest: bool = False
    gpus_held: int = 0
    limit_s: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the job waits."""
        return self.phase == _WAITS

    @property
    def runs(self) -> bool:
        """Whether the job runs and is not ending."""
        return self.phase == _RUNS

    @property
    def over(self) -> bool:
        """Whether the job is complete, cancelled, failed or timed out."""
        return self.phase not in (_WAITS, _RUNS, "starting", "ending")

    @property
    def parked_until_s(self) -> float | None:
        """Begin time that we set; None if the job is not parked by us."""
        word, _, at = self.mark.partition("@")
        return float(at) if word == PARKED and at.isdigit() else None

    def begin_is_ours(self, time_s: float) -> bool:
        """Return whether its begin time is ours, or Slurm's pause after a requeue."""
        if self.begin_s <= time_s:
            return True
        until_s = self.parked_until_s
        if until_s is not None and abs(until_s - self.begin_s) <= 2.0:
            return True
        return self.restarts > 0 and self.begin_s - self.submit_s <= REQUEUE_S

    def not_ours(self, settings: Settings, time_s: float, *, mark: bool = True) -> str:
        """Return why the job is left alone; "" if it takes part.

        Parameters
        ----------
        mark
            Whether its user must have put the mark into the comment.
        """
        partitions = self.partition.split(",")
        if self.special:
            return self.special
        if settings.partitions and not set(partitions) <= set(settings.partitions):
            return "another partition"
        if mark and self.comment.split()[:1] != [settings.mark]:
            return "its user did not mark it"
        if self.waits and self.held:
            return "held by a person"
        if self.waits and not self.begin_is_ours(time_s):
            return "a begin time of its own"
        if self.pinned and self.waits and not self.mark.startswith(OURS):
            return "nodes of its own (-w)"
        return ""


@dataclass(frozen=True, slots=True)
class Picture:
    """State of the cluster in one turn.

    Parameters
    ----------
    live
        The round, of foreign jobs too.
    jobs
        Jobs by name, the finished ones that Slurm still shows included; no GPUs needed.
    time_s, boot_s, message_s
        slurmctld's clock, when it began, and its MessageTimeout.
    cluster
        Its name.
    silent
        Nodes that do not respond.
    whole
        Whether nodes state the job of every GPU in use.
    leases
        Job number and admin comment of each lease.
    partitions
        Names that nodes are in.
    doors
        Address and port of the slurmd of each node that states them.
    objects
        Values that the scheduler's own class needs.
    """

    live: Live
    jobs: Mapping[str, Seen]
    time_s: float
    boot_s: float
    message_s: float
    cluster: str
    silent: frozenset[str]
    whole: bool
    leases: tuple[tuple[str, str], ...] = ()
    partitions: frozenset[str] = field(default_factory=frozenset)
    doors: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    objects: Any = None

    def fingerprint(self) -> str:
        """Return a text that changes whenever jobs, their places or nodes do."""
        state = self.live.snapshot.state
        jobs = sorted(map(_CHANGING, self.jobs.values()))
        held = sorted((k.job.name, k.running is None) for k in state.jobs)
        return repr((jobs, held, sorted(state.unavailable), sorted(self.silent)))

    def restless(self) -> str:
        """Return why no job may be stopped now: some may have ended unseen; "" if one may."""
        if self.time_s < self.boot_s + 2.0 * self.message_s:
            return "slurmctld began a moment ago"
        return "" if self.whole else "GPUs are in use by no job that squeue shows"


def clock_of(config: str) -> float:
    """Return the time of slurmctld's answer.

    Raises
    ------
    InputError
        If that is not what ``scontrol show config`` prints.
    """
    as_of = _AS_OF.search(config)
    if as_of is None:
        raise InputError("is not what scontrol prints", field="scontrol show config")
    return _instant(as_of[1])


def read_picture(
    config: str, jobs: Any, nodes: Any, submitted_s: Mapping[str, float], settings: Settings
) -> Picture:
    """Build the picture of ``scontrol show config``, ``squeue --json`` and the nodes.

    Parameters
    ----------
    submitted_s
        First submission of known jobs: a requeue resets Slurm's value.

    Raises
    ------
    InputError
        If an answer is not what such a command prints.
    """
    found = dict(_CONFIG.findall(config))
    if "BOOT_TIME" not in found:
        raise InputError("states no BOOT_TIME", field="scontrol show config")
    document = Fields(jobs, "", "squeue --json", None)
    rows = document.objects("jobs", None)
    listed = [_seen(row) for row in rows]
    seen = {one.name: one for one in listed}
    # What happened between the two answers, or in the second that the clock cuts off, is past.
    happened = [max(one.submit_s, one.start_s * one.runs) for one in seen.values()]
    time_s = max([clock_of(config), *(at for at in happened if at)])
    leases = tuple(
        (one.name, one.mark)
        for row, one in zip(rows, listed, strict=True)
        if one.waits and _is_lease(row)
    )
    ready = [_unparked(row, seen[str(row["job_id"])], time_s, submitted_s) for row in jobs["jobs"]]
    answer = {**jobs, "jobs": ready, "last_update": time_s}
    live = slurm_round([("squeue --json", answer), ("sinfo --json", nodes)])
    nodes_of = Fields(nodes, "", "sinfo --json", None).objects("nodes", None)
    silent = frozenset(row.word("name") for row in nodes_of if _silent(row))
    places = frozenset(name for row in nodes_of for name in texts(row, "partitions"))
    gone = set(settings.partitions) - places
    if gone:
        rule = f"no node is in partition {min(gone)!r}; there are {', '.join(sorted(places))}"
        raise InputError(rule, field="partitions")
    hidden = [job for job in live.snapshot.state.jobs if job.job.tenant == "in use"]
    ending = {name for one in seen.values() if one.phase == "ending" for name in one.nodes}
    index = live.snapshot.state.cluster.nodes
    on = {index[n].name for job in hidden if job.running for n in job.running.placement.nodes}
    message_s = float(found.get("MessageTimeout", "10").split()[0])
    return Picture(
        live,
        seen,
        time_s,
        _instant(found["BOOT_TIME"]),
        message_s,
        found.get("ClusterName", ""),
        silent,
        on <= ending,
        leases,
        places,
        dict(_doors(nodes_of)),
    )


def _instant(written: str) -> float:
    return datetime.fromisoformat(written).replace(tzinfo=UTC).timestamp()


def _doors(rows: Sequence[Fields]) -> Iterator[tuple[str, tuple[str, int]]]:
    for row in rows:
        if row.word("address") and (port := number(row, "port")):
            yield row.word("name"), (row.word("address"), round(port))


def _silent(row: Fields) -> bool:
    states = list(words(row, "state", "state_flags"))
    return any(word.endswith("*") or word.rstrip("*~#!%$@^-") in _DEAD for word in states)


def _seen(row: Fields) -> Seen:
    states = set(words(row, "job_state"))
    if states & _ENDS:
        phase = "ending"
    elif states & {"RUNNING", "CONFIGURING"}:
        phase = _RUNS
    elif states & {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"}:
        phase = _WAITS
    else:
        phase = min(states).lower()
    requeue = row.raw("requeue", False)
    nodes = () if phase == _WAITS else hosts(row, "nodes")
    over = phase not in (_RUNS, _WAITS, "ending")
    limit_min = number(row, "time_limit")
    return Seen(
        name=str(row.whole("job_id")),
        user=row.word("user_name"),
        partition=row.word("partition"),
        phase=phase,
        comment=row.word("comment"),
        mark=row.word("admin_comment"),
        held=number(row, "priority") == 0.0,
        priority=number(row, "priority") or 0.0,
        begin_s=number(row, "eligible_time") or 0.0,
        submit_s=number(row, "submit_time") or 0.0,
        start_s=number(row, "start_time") or 0.0,
        end_s=number(row, "end_time") or 0.0,
        requeue=bool(requeue),
        restarts=round(number(row, "restart_cnt") or 0.0),
        pinned=hosts(row, "required_nodes"),
        nodes=nodes,
        special=next(_special(row), ""),
        asked_nodes=round(number(row, "node_count") or 1.0),
        by_node=bool(row.word("tres_per_node")),
        gpus_held=gpus_once_held(row) if over and nodes else 0,
        limit_s=None if limit_min is None else 60.0 * limit_min,
    )


def _special(row: Fields) -> Iterator[str]:
    if array_of(row):
        yield "a job array"
    if number(row, "het_job_id"):
        yield "a heterogeneous job"
    if row.word("dependency"):
        yield "a dependency"
    if row.word("resv_name"):
        yield "a reservation"
    if _is_lease(row):
        yield "the lease"


def is_lease_mark(mark: str) -> bool:
    """Return whether an admin comment marks a lease; only operators can write one."""
    return mark.startswith("lease:")


def _is_lease(row: Fields) -> bool:
    """Return whether a job is the lease of a controller; a user may give a job its name, too."""
    return row.word("name") == LEASE_NAME and is_lease_mark(row.word("admin_comment"))


def _unparked(
    row: dict[str, Any], one: Seen, time_s: float, submitted_s: Mapping[str, float]
) -> dict[str, Any]:
    """Return a job's record without the effects of our parking."""
    if not one.waits or one.special or one.held or not one.begin_is_ours(time_s):
        return row
    ours: dict[str, Any] = {"eligible_time": 0}
    if row.get("state_reason") in ("BeginTime", "None", "", None):
        ours["state_reason"] = "None"
    if one.mark.startswith(OURS):
        ours["required_nodes"] = ""
        # Slurm says what it could not do with our choice of nodes: that choice is made anew.
        ours["state_reason"] = "None"
    first_s = submitted_s.get(one.name)
    if first_s is not None:
        ours["submit_time"] = min(first_s, one.submit_s)
    return row | ours
