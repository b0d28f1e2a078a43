"""Reader of slurm.conf: the settings that decide when jobs start, and those not followed.

Every key is in one of three lists: it is read, it decides nothing about when a job starts, or it
is returned as not modelled. Keys without which a model of the site would be another scheduler are
refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.documents.source import read_text
from morph_opt.core.domain import InputError
from morph_opt.inputs.slurm.hostlist import expand_hosts

MOST_BYTES = 16 * 2**20
"""Largest size of a slurm.conf."""

_PAIR = re.compile(r'([A-Za-z][A-Za-z0-9_]*)\s*=\s*("[^"]*"|\S*)')

_NEVER = {
    "schedulertype": ("sched/backfill", "sched/builtin"),
    "prioritytype": ("priority/basic", "priority/multifactor"),
    "selecttype": ("select/cons_tres", "select/cons_res"),
    "preempttype": ("preempt/none",),
    "topologyplugin": ("topology/none", "topology/default", "topology/flat"),
}
"""Keys with the values that are modelled; any other value is refused."""

_SILENT = re.compile(
    r"slurm(ctld|d|user|sched).*|auth.*|cred.*|clustername|control.*|backup.*|state.*|.*port|.*log"
    r"|.*logfile|log.*|.*debug.*|.*timeout|account(ing|ingstorage).*|jobacct.*|jobcomp.*|acct.*"
    r"|mail.*|proctrack.*|task(plugin|prolog|epilog).*|mpi.*|switch.*|returntoservice|minjobage"
    r"|plugindir|plugstack.*|crypto.*|communication.*|inactivelimit|waittime|keepalive.*|propagate.*"
    r"|srun.*|treewidth|messagetimeout|firstjobid|maxjobid|maxjobcount|maxarraysize|grestypes"
    r"|health.*|ext.*|energy.*|core.?spec.*|launch.*|tmpfs|rebootprogram|usepam|vsizefactor|x11.*"
    r"|disablerootjobs|unkillable.*|jobcontainer.*|routeplugin|getenv.*|cli.*|dump.*|burst.*log"
    r"|.*pidfile|killonbadexit|printf.*|jobfileappend|batchstarttimeout|nodefeatures.*|gpufreq.*"
    r"|jobrequeue|groupupdate.*|requeueexit.*|prolog(flags)?|interactive.*|cpufreq.*|mcs.*"
    r"|priorityusageresetperiod|.*spooldir|hashplugin|tls.*|certmgr.*|certgen.*|data_?parser.*"
)
"""Keys that do not decide when a job starts, in lower case."""


@dataclass(frozen=True, slots=True)
class SlurmPartition:
    """Partition of slurm.conf.

    Parameters
    ----------
    name
        Its name.
    nodes
        Names of its nodes; None for all (``ALL``).
    tier
        ``PriorityTier``.
    job_factor
        ``PriorityJobFactor``.
    max_time_s, default_time_s
        Longest and usual time limit in seconds; None without one.
    default
        Whether jobs that name none are in it.
    least_loaded
        Whether it takes its least loaded nodes (``LLN``).
    up
        Whether its jobs are started: False in the states ``DOWN`` and ``INACTIVE``.
    """

    name: str
    nodes: frozenset[str] | None = None
    tier: int = 1
    job_factor: int = 1
    max_time_s: float | None = None
    default_time_s: float | None = None
    default: bool = False
    least_loaded: bool = False
    up: bool = True


@dataclass(frozen=True, slots=True)
class SlurmConf:
    """Settings of slurm.conf that decide when jobs start.

    Parameters
    ----------
    values
        Keys that hold one value, in lower case.
    scheduler
        Parts of ``SchedulerParameters``, in lower case; "" for one without a value.
    partitions
        In the order of the file.
    nodes
        Names of the nodes in the order of the file, which is the order in which Slurm fills them.
    unmodelled
        Keys and parts that are not modelled, as they are written.
    """

    values: Mapping[str, str]
    scheduler: Mapping[str, str]
    partitions: tuple[SlurmPartition, ...]
    nodes: tuple[str, ...]
    unmodelled: tuple[str, ...]

    def number(self, key: str, default: float) -> float:
        """Return a number of ``SchedulerParameters``.

        Raises
        ------
        InputError
            If it is none, or negative.
        """
        return read_number(f"SchedulerParameters: {key}", self.scheduler.get(key, str(default)))

    def weight(self, key: str) -> float:
        """Return one of the keys ``PriorityWeight...``; 0 if it is not set."""
        return read_number(key, self.values.get(key.lower(), "0"))


READ_PARAMETERS = frozenset(
    (
        "bf_interval",
        "bf_window",
        "bf_resolution",
        "bf_max_job_test",
        "sched_interval",
        "batch_sched_delay",
        "default_queue_depth",
    )
)
"""Parts of ``SchedulerParameters`` that are modelled."""

_SILENT_PARAMETERS = frozenset(
    (
        "bf_continue",
        "bf_max_time",
        "bf_yield_interval",
        "bf_yield_sleep",
        "max_sched_time",
        "max_rpc_cnt",
        "sched_min_interval",
        "sched_max_job_start",
        "bf_node_space_size",
    )
)
"""Parts that only limit how long one cycle works; in the model a cycle is never cut short."""

READ_KEYS = frozenset(
    (
        *_NEVER,
        "schedulerparameters",
        "selecttypeparameters",
        "prioritydecayhalflife",
        "prioritycalcperiod",
        "prioritymaxage",
        "priorityweightage",
        "priorityweightfairshare",
        "priorityweightjobsize",
        "priorityweightqos",
        "priorityweightpartition",
        "priorityflags",
        "priorityfavorsmall",
        "killwait",
        "overtimelimit",
    )
)
"""Keys that hold one value and are modelled, in lower case."""

_READ_FLAGS = frozenset(("calculate_running", "no_fair_tree", "fair_tree"))
_PARTITION = {
    "nodes",
    "prioritytier",
    "priorityjobfactor",
    "maxtime",
    "defaulttime",
    "default",
    "lln",
    "state",
}
_PARTITION_SILENT = {"hidden", "alloc_nodes", "allocnodes", "rootonly", "defmempercpu"}


def read_slurm_conf(path: Path) -> SlurmConf:
    """Read a slurm.conf.

    Raises
    ------
    InputError
        If a line cannot be read, or sets what the model would be another scheduler without; the
        message names file, line and key.
    """
    return parse_slurm_conf(read_text(path, MOST_BYTES), str(path))


def parse_slurm_conf(text: str, file: str = "slurm.conf") -> SlurmConf:
    """Return the settings of the text of a slurm.conf; see `read_slurm_conf`."""
    values: dict[str, str] = {}
    partitions: list[SlurmPartition] = []
    nodes: list[str] = []
    unmodelled: list[str] = []
    defaults: dict[str, str] = {}
    written = {key.lower(): key for key, _ in _PAIR.findall(text)}
    for line, pairs in _lines(text, file):
        first = next(iter(pairs))
        if first == "partitionname":
            if pairs[first].upper() == "DEFAULT":
                defaults = {**defaults, **pairs}
                continue
            given = {**defaults, **pairs}
            partitions.append(_located(given, file, line))
            unmodelled += [
                f"PartitionName={given[first]} {written[key]}"
                for key in given
                if key not in _PARTITION | _PARTITION_SILENT | {first}
            ]
        elif first in ("nodename", "nodeset", "downnodes", "frontendname"):
            if first == "nodename" and pairs[first].upper() != "DEFAULT":
                nodes += expand_hosts(pairs[first])
        else:
            values.update(pairs)
    for key, allowed in _NEVER.items():
        if key in values and values[key].lower() not in allowed:
            rule = f"{values[key]} is not modelled; modelled: {', '.join(allowed)}"
            raise InputError(rule, file=file, field=written[key])
    scheduler = dict(_parameters(values.get("schedulerparameters", "")))
    unmodelled += [
        written[key] for key in values if key not in READ_KEYS and not _SILENT.fullmatch(key)
    ]
    unmodelled += [
        f"SchedulerParameters: {key}"
        for key in scheduler
        if key not in READ_PARAMETERS | _SILENT_PARAMETERS
    ]
    flags = values.get("priorityflags", "").lower().replace(" ", "").split(",")
    unmodelled += [f"PriorityFlags: {flag}" for flag in flags if flag and flag not in _READ_FLAGS]
    return SlurmConf(values, scheduler, tuple(partitions), tuple(nodes), tuple(unmodelled))


def _lines(text: str, file: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the pairs of each line with its number; keys in lower case."""
    held, begun = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].rstrip()
        begun = begun if held else number
        held += line[:-1] + " " if line.endswith("\\") else line
        if line.endswith("\\"):
            continue
        whole, held = held.strip(), ""
        if not whole:
            continue
        if whole.lower().startswith("include"):
            rule = "includes another file: put its lines here"
            raise InputError(rule, file=file, line=begun)
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(whole)}
        if not pairs or _PAIR.sub("", whole).strip():
            rule = f"must be pairs like Key=value, got {whole[:80]!r}"
            raise InputError(rule, file=file, line=begun)
        yield begun, pairs


def _parameters(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if key:
            yield key.lower(), value


def _located(pairs: Mapping[str, str], file: str, line: int) -> SlurmPartition:
    try:
        return _partition(pairs)
    except InputError as error:
        raise error.located(file=file, line=line) from None


def _partition(pairs: Mapping[str, str]) -> SlurmPartition:
    given = pairs.get("nodes", "").strip()
    every = not given or given.upper() == "ALL"
    return SlurmPartition(
        pairs["partitionname"],
        None if every else frozenset(expand_hosts(given)),
        int(read_number("PriorityTier", pairs.get("prioritytier", "1"))),
        int(read_number("PriorityJobFactor", pairs.get("priorityjobfactor", "1"))),
        time_s(pairs.get("maxtime", "UNLIMITED"), "MaxTime"),
        time_s(pairs.get("defaulttime", "UNLIMITED"), "DefaultTime"),
        pairs.get("default", "NO").upper() == "YES",
        pairs.get("lln", "NO").upper() == "YES",
        pairs.get("state", "UP").upper() not in ("DOWN", "INACTIVE"),
    )


def read_number(name: str, text: str) -> float:
    """Return a number from 0 on.

    Raises
    ------
    InputError
        If the text is none; naming the key.
    """
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 1e12:
        raise InputError(f"must be a number from 0 on, got {text!r}", field=name)
    return found


_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


def time_s(text: str, name: str) -> float | None:
    """Return the seconds of a time such as ``90`` (minutes), ``1:30:00`` or ``2-12``.

    Returns
    -------
    float or None
        None for ``UNLIMITED``, ``INFINITE`` and ``NONE``.

    Raises
    ------
    InputError
        If it is no time of Slurm.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "NONE", "-1"):
        return None
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise InputError(f"must be a time like 90, 1:30:00 or 2-12, got {text!r}", field=name)
    days, *rest = (None if part is None else int(part) for part in found.groups())
    given = [part for part in rest if part is not None]
    # Either days-hours[:minutes[:seconds]] or hours:minutes:seconds, or minutes[:seconds].
    units = (3600, 60, 1) if days is not None or len(given) == 3 else (60, 1, 0)
    total = 86_400 * (days or 0) + sum(a * b for a, b in zip(given, units, strict=False))
    return float(total)
