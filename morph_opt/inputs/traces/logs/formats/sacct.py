"""Slurm's accounting as ``sacct --parsable2`` prints it, any columns in any order.

Where nothing in a cell has a comma, ``--delimiter`` may be one. Times may be dates or, as under
``SLURM_TIME_FORMAT=%s``, seconds since 1970. ``sacct --json`` is read as the same cells. Equal ids
are one job only if cluster and user are equal and the job was not over before the next submission.
A row ``100_[3-8%2]`` is six waiting tasks, of which two may run at a time.

GPUs are trackable resources (TRES): ``gres/gpu=2,gres/gpu:a100=2`` names the same two twice. The
headerless columns of Open XDMoD's shredder are the layout ``xdmod``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from morph_opt.core.documents import Fields, Row
from morph_opt.core.domain import InputError
from morph_opt.inputs.traces.logs.formats.sacct_json import json_cells
from morph_opt.inputs.traces.logs.reading.clock import Clock
from morph_opt.inputs.traces.logs.reading.quantities import elapsed_s
from morph_opt.inputs.traces.logs.reading.reader import (
    MOST_GPUS,
    ROUNDED_S,
    Head,
    TableReader,
    cells_row,
    is_nothing,
)
from morph_opt.inputs.traces.logs.reading.records import (
    MissingColumns,
    Record,
    begins_with_brace,
    json_records,
)
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import LogRow, Outcome, Reading, span_s

XDMOD = (
    "JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID",
    "Submit", "Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS",
    "ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "Timelimit", "NodeList", "JobName",
)  # fmt: skip
"""Columns of the layout ``xdmod``."""

_FAILED = (
    "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED",
    "REVOKED", "REQUEUED", "LAUNCH_FAILED", "RECONFIG_FAIL",
)  # fmt: skip
_ENDED: dict[str, Outcome] = {
    "COMPLETED": "completed",
    "CANCELLED": "cancelled",
    **dict.fromkeys(_FAILED, "failed"),
}
_RUNNING = ("RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")
_WAITING = (
    "PENDING", "CONFIGURING", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT",
)  # fmt: skip
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_SLICE = re.compile(r"(?:^|[_.:-])[0-9]+[gc]\.[0-9]+gb", re.ASCII | re.IGNORECASE)
_GPU_ID = "7696487"
"""Number of the plugin ``gpu``, printed if the accounting does not know its name."""
_RUN = "run sacct with --parsable2, as docs/how-to/slurm.md has it"
_FINAL = frozenset(("COMPLETED", "CANCELLED"))
"""States after which a job is over."""
_REQUEUED_S = 86_400.0
"""Longest time from the end of an attempt to the submission of the next one."""
_ARRAY = re.compile(r"([0-9]+)_(?:[0-9]+|\[([^\]]*)\]?)", re.ASCII)
_TASKS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", re.ASCII)
_CUT = ",..."
"""Mark at the end of a list of tasks that Slurm cut (``SLURM_BITSTR_LEN``)."""
MOST_TASKS = 4_000_001
"""Largest number of tasks of an array: the largest ``MaxArraySize`` of Slurm."""
_NO_LIMIT = ("", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "NOT_SET", "None")


def tasks_of(text: str) -> tuple[int, int | None]:
    """Return the number of tasks of a waiting array, and the limit of tasks at a time.

    >>> tasks_of("1,3-5,10-20:5%2")
    (7, 2)

    Raises
    ------
    InputError
        If it is no list of tasks. Tasks after ``...``, where Slurm cuts a long list, do not count.
    """
    listed, percent, most = text.partition("%")
    count = 0
    for part in listed.removesuffix(_CUT).split(","):
        found = _TASKS.fullmatch(part)
        if found is None:
            raise InputError(f"must be tasks of an array like 1,3-8%2, got {text!r}")
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        count += max(0, (last - first) // max(1, step) + 1)
    if not 0 < count <= MOST_TASKS:
        raise InputError(f"must be 1 to {MOST_TASKS:,} tasks, got {text!r}")
    return count, int(most) if percent and most.isdecimal() and int(most) else None


@dataclass(frozen=True, slots=True)
class Tres:
    """GPUs in a list of trackable resources.

    Parameters
    ----------
    gpus
        The untyped total; where there is none, the sum of the types.
    types
        Types named, slices of GPUs left out.
    sliced, shared
        Whether slices of GPUs (MIG), or shares (shards, MPS), are among them.
    disagree
        Whether total and types contradict each other.
    cpus
        CPU threads; None if not named.
    """

    gpus: int
    types: tuple[str, ...]
    sliced: bool
    shared: bool
    disagree: bool
    cpus: int | None

    @classmethod
    def of(cls, text: str) -> Tres:
        """Read a list like ``cpu=64,gres/gpu=8,gres/gpu:h100=8``, in any order.

        Raises
        ------
        InputError
            If an item is none.
        """
        total: int | None = None
        cpus: int | None = None
        types: dict[str, int] = {}
        shared = False
        for item in text.split(",") if text else ():
            name, equals, amount = item.partition("=")
            if not equals:
                raise InputError(f"must be a list of name=amount, got {item!r}")
            if name == "cpu":
                cpus = _amount(item, amount)
            elif name == "gres/gpu":
                total = _amount(item, amount)
            elif name.startswith("gres/gpu:"):
                kind = name.removeprefix("gres/gpu:")
                types[kind] = types.get(kind, 0) + _amount(item, amount)
            elif name.startswith(("gres/shard", "gres/mps")):
                shared = shared or amount != "0"
        added = sum(types.values())
        held = tuple(sorted(kind for kind, n in types.items() if n and not _SLICE.search(kind)))
        sliced = any(_SLICE.search(kind) for kind, n in types.items() if n)
        disagree = total is not None and bool(types) and total != added
        return cls(added if total is None else total, held, sliced, shared, disagree, cpus)


def tres_of_gres(text: str) -> str:
    """Return generic resources of older releases (``gpu:a100:4(S:0-1)``) as trackable ones.

    >>> tres_of_gres("gpu:a100:4(S:0-1),craynetwork:1,gpu:2")
    'gres/gpu:a100=4,gres/gpu=2'
    """
    found = []
    for item in re.sub(r"\([^()]*\)", "", text).split(","):
        name, *more = item.strip().removeprefix("gres:").removeprefix("gres/").split(":")
        if name in ("shard", "mps"):
            found.append(f"gres/{name}={more[-1] if more else 1}")
        elif name in ("gpu", _GPU_ID):
            *kind, amount = more if more and more[-1].isdigit() else (*more, "1")
            found.append(":".join(("gres/gpu", *kind)) + f"={amount}")
    return ",".join(found)


def _amount(item: str, amount: str) -> int:
    if not (amount.isascii() and amount.isdigit() and len(amount) < 12):
        raise InputError(f"must be a whole number, got {item!r}")
    value = int(amount)
    if value > MOST_GPUS:
        raise InputError(f"must be at most {MOST_GPUS}, got {item!r}")
    return value


class SacctReader(TableReader):
    """Reader of the output of ``sacct``; a row is an attempt, or a component of a job."""

    name, zone, folds = "sacct", "UTC", True
    options = ("columns",)
    separators = ("|", "\t", ";", ",")
    marks = frozenset(("State", "Submit"))
    required = ("State", "Submit", "Start", "End")
    dates_or_seconds = True
    lost: ClassVar[Mapping[str, str]] = {
        "Submit": "submissions", "Start": "run times", "End": "run times", "AllocTRES": "GPUs",
        "State": "outcomes",
    }  # fmt: skip
    loose_end = ("JobName", "SubmitLine", "Comment", "WorkDir", "AdminComment", "SystemComment")
    statuses: ClassVar[Mapping[str, Outcome]] = {
        **_ENDED,
        **dict.fromkeys((*_RUNNING, *_WAITING), "unknown"),
    }
    _tracked = False

    def __init__(self, path: Path, how: Reading, clock: Clock, report: Report) -> None:
        super().__init__(path, how, clock, report)
        self._arrays: dict[int, int] = {}

    @classmethod
    def understood(cls, how: Reading) -> Reading:
        """Refuse a layout without a header that is not known."""
        if how.columns not in (None, "xdmod"):
            rule = f"must be xdmod for format {cls.name}, got {how.columns!r}"
            raise InputError(rule, field="columns")
        return super().understood(how)

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Recognise the format by its header, or by columns and times if it has none."""
        if head.keys:
            return {} if "jobs" in head.keys and {"time", "tres"} <= set(head.entry) else None
        cells = cls.split(head.line)
        if len(cells) >= len(XDMOD) and _INSTANT.fullmatch(cells[XDMOD.index("Submit")]):
            return {"columns": "xdmod"}
        cut = len(cells) == 1 and cls.marks <= set(head.line.split())
        return {} if cut else super().layout(head)

    def records(self) -> Iterator[Record]:
        """Yield the rows of a table, or the jobs of ``sacct --json`` as such rows."""
        if not begins_with_brace(self.path):
            yield from super().records()
            return
        if self.how.columns is not None:
            raise InputError("has no effect on JSON", field="columns")
        for record in json_records(self.path, "jobs", ()):
            content = record.content
            if isinstance(content, Fields):
                try:
                    content = Row(str(self.path), record.line, json_cells(content))
                except InputError as error:
                    content = error.located(file=str(self.path), line=record.line)
            yield record._replace(content=content)

    def fixed_header(self) -> tuple[str, ...] | None:
        """Return the columns of a layout without a header."""
        return {None: None, "xdmod": XDMOD}[self.how.columns]

    def _header(self, cells: list[str], file: str, line: int) -> list[str]:
        if len(cells) == 1 and self.marks <= set(cells[0].split()):
            rule = f"is sacct's table for reading, which cuts its cells; {_RUN}"
            raise InputError(rule, file=file, line=line)
        header = super()._header(cells, file, line)
        for names, what in ((("JobIDRaw", "JobID"), "jobs"), (("AllocTRES", "AllocGRES"), "GPUs")):
            if not set(names) & set(cells):
                rule = f"column is missing: {what} cannot be known"
                raise MissingColumns(rule, names[:1], file, line)
        return header

    def uneven(self, separator: str) -> str:
        """Explain a row with more fields: lists of resources contain commas."""
        return f" (its cells have commas themselves; {_RUN})" if separator == "," else ""

    def name_of(self, record: Record) -> str:
        """Return the job's id."""
        cells = cells_row(record).cells
        return cells.get("JobID") or cells.get("JobIDRaw", "")

    def key_of(self, record: Record) -> str:
        """Return the identity of a job: id, cluster and user."""
        return self._key(cells_row(record).cells, self.name_of(record))

    def _key(self, cells: Mapping[str, str], name: str) -> str:
        """Return the identity of the job of a row."""
        return "\n".join((self.group(name)[0], cells.get("Cluster", ""), cells.get("User", "")))

    def reused_after_s(self, row: LogRow) -> float:
        """Return 0 after a final state, else a day: a requeued job is submitted again at once."""
        return 0.0 if row.status in _FINAL else _REQUEUED_S

    def group(self, name: str) -> tuple[str, str]:
        """Split the name of a component, ``90+1``, into job and component."""
        job, plus, component = name.partition("+")
        return (job, component) if plus and component.isdigit() else (name, "")

    def row(self, record: Record) -> LogRow:
        """Return the attempt of a line."""
        row = cells_row(record)
        cells = row.cells
        name = self.name_of(record) or row.text("JobID" if "JobID" in cells else "JobIDRaw")
        if "." in name.partition("[")[0]:  # a cut list of tasks has dots, too
            self.reasons.append("step")
        status = self._status(cells["State"])
        outcome = self.outcome(status)
        submit_s = self.seconds(row, "Submit")
        start_s, end_s = (self.seconds_or_none(row, field, submit_s) for field in ("Start", "End"))
        held, asked = (self._tres(row, f"{way}TRES", f"{way}GRES") for way in ("Alloc", "Req"))
        gone = not cells.get("AllocTRES", "none")
        # A slurmctld that begins anew may forget GPUs of what it gave, and keeps what was asked.
        used = held if held.gpus or held.shared else asked
        self._gpus(row, used, held, asked)
        if used is asked and asked.gpus and start_s is not None and not gone:
            self.find("requested-not-allocated")
        waits = gone or status in _WAITING
        self.ran_s(start_s, end_s, waits=waits, runs=status in _RUNNING)
        self.unsized = start_s is None and not {"ReqTRES", "ReqGRES"} & set(cells)
        run_s = self._run_s(row, start_s, end_s)
        array, tasks, at_once = self._array(row, name)
        partition = cells.get("Partition", "")
        found = LogRow(
            name,
            row.line,
            submit_s,
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            gpus=used.gpus,
            gpu_type=used.types[0] if used.types else None,
            nodes=self._whole(row, "NNodes"),
            cpus=used.cpus,
            status=status,
            outcome=outcome,
            tenant=cells.get("Account", ""),
            user=cells.get("User", ""),
            kind=cells.get("Partition"),
            limit_s=self._duration(row, "Timelimit", "TimelimitRaw", 60.0),
            hosts=None if is_nothing(cells.get("NodeList", "")) else cells["NodeList"],
            eligible_s=self._eligible_s(row, submit_s, started=start_s is not None),
            key=self._key(cells, name),
            pool=f"{cells['Cluster']}/{partition}" if cells.get("Cluster") else partition,
            array=array,
            tasks=tasks,
            at_once=at_once,
            qos=cells.get("QOS", ""),
        )
        self.compare(found)
        return found

    def finish(self) -> None:
        """Add a finding if the site does not account GPUs, and one for waiting arrays."""
        if self.report.rows > self.report.dropped["malformed"] and not self._tracked:
            self.report.found("no-gpu-tracking")
        if self._arrays:
            tasks = float(sum(self._arrays.values()))
            self.report.found("pending-array", min(self._arrays), len(self._arrays), tasks=tasks)

    def _status(self, state: str) -> str:
        """Return the state of ``CANCELLED by 1001``, ``CANCELLED+`` or ``OUT_OF_ME+``."""
        word = state.split(" ", maxsplit=1)[0]
        if not word.endswith("+"):
            return word
        known = [one for one in self.statuses if one.startswith(word[:-1])]
        return known[0] if len(known) == 1 else word

    def _tres(self, row: Row, field: str, older: str) -> Tres:
        field = field if field in row.cells else older
        text = row.cells.get(field, "")
        return row.built(lambda: Tres.of(text if field != older else tres_of_gres(text)), field)

    def _gpus(self, row: Row, used: Tres, held: Tres, asked: Tres) -> None:
        """Note what is special about the GPUs of a row."""
        self._tracked = self._tracked or bool(held.gpus or asked.gpus)
        if used.sliced:
            self.reasons.append("mig-slice")
        elif used.shared and not used.gpus:
            self.reasons.append("fractional-gpu")
        if len(used.types) > 1:
            self.reasons.append("mixed-gpu-types")
        if used.disagree:
            self.find("tres-disagree")
        if held.gpus and asked.gpus and held.gpus != asked.gpus:
            self.find("allocated-not-requested")
        older = "AllocTRES" not in row.cells and (held.gpus or asked.gpus)
        if older and (self._whole(row, "NNodes") or 1) > 1:
            self.find("gres-per-node")

    def _run_s(self, row: Row, start_s: float | None, end_s: float | None) -> float | None:
        """Return Elapsed, without suspended time; end - start if it is not printed."""
        span = span_s(start_s, end_s)
        run_s = self._duration(row, "Elapsed", "ElapsedRaw", 1.0)
        if run_s is None or span is None:
            return span if run_s is None else run_s
        if abs(run_s - span) > ROUNDED_S:
            self.find("elapsed-mismatch")
        return run_s

    def _array(self, row: Row, name: str) -> tuple[str, int, int | None]:
        """Return the array of a row, its number of tasks, and the limit of tasks at a time."""
        found = _ARRAY.fullmatch(name)
        if found is None:
            return "", 1, None
        array = self._key(row.cells, found[1])
        if found[2] is None:
            return array, 1, None
        listed = found[2]
        tasks, at_once = row.built(lambda: tasks_of(listed), "JobID")
        self._arrays[row.line] = tasks
        if _CUT in found[2]:
            self.report.found("array-cut", row.line)
        return array, tasks, at_once

    def _eligible_s(self, row: Row, submit_s: float, *, started: bool) -> float | None:
        """Return the instant from which only GPUs were missing; infinite for a job on hold."""
        text = row.cells.get("Eligible")
        if text is None:
            return None
        eligible_s = self.seconds_or_none(row, "Eligible", submit_s)
        return math.inf if eligible_s is None and not started else eligible_s

    def _clocked(self, text: str, row: Row | Fields, field: str) -> float:
        """Return an absolute time; an error names the variable of an unknown notation."""
        try:
            return super()._clocked(text, row, field)
        except InputError as error:
            rule = f"{error.rule} (unset SLURM_TIME_FORMAT, or set it to standard or %s, for sacct)"
            raise InputError(rule, file=error.file, line=error.line, field=error.field) from None

    def _duration(self, row: Row, field: str, raw: str, unit_s: float) -> float | None:
        """Return a duration that is printed in words, or as a number of units."""
        if row.cells.get(raw, "") not in _NO_LIMIT:
            return unit_s * row.integer(raw, at_least=0)
        text = row.cells.get(field, "")
        return None if text in _NO_LIMIT else row.built(lambda: elapsed_s(text), field)

    def _whole(self, row: Row, field: str) -> int | None:
        return row.integer(field, at_least=0) if row.cells.get(field) else None
