"""Tables with a line per job, as most sites keep one, whatever their columns are called.

Which column is what is guessed where its name is usual, and named with ``--columns`` where not. A
unit at the end of a name (``duration_min``, ``runtime (h)``) counts, and so does one in brackets
after a column that is named (``duration=walltime[h]``, ``duration=run_time[HH:MM]``). What may be
read wrongly without a word of the user (a unit, a limit, GPUs per node) is a warning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from morph_opt.core.documents import Row
from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import typed
from morph_opt.core.domain.nearest import did_you_mean, unknown
from morph_opt.inputs.traces.logs.formats.sacct import Tres, tres_of_gres
from morph_opt.inputs.traces.logs.reading.clock import EPOCH_FROM, MILLISECONDS_FROM, Clock, epoch_s
from morph_opt.inputs.traces.logs.reading.quantities import (
    UNITS,
    elapsed_s,
    has_mark,
    is_two_part,
    number_of,
)
from morph_opt.inputs.traces.logs.reading.reader import (
    NOTHING,
    Head,
    TableReader,
    cells_row,
    gpus_of,
    is_nothing,
)
from morph_opt.inputs.traces.logs.reading.records import Record
from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import Gpus, LogRow, Outcome, Reading, span_s

USUAL: dict[str, str] = {
    "job": "jobid idjob job id jobnumber jobidraw jobname name",
    "submit": "submit submittime submission submissiontime submitted submittedat "
    "submittimestamp arrival arrivaltime arrived arrivedat queuedat timesubmit qsubtime qtime "
    "submitdate | created createdat creationtime creationtimestamp timestamp time date",
    "start": "start starttime started startedat begin begintime timestart",
    "end": "end endtime ended endedat finish finishtime finished finishedat timeend | "
    "completedat stop completiontime",
    "duration": "duration runtime elapsed elapsedtime servicetime executiontime jobduration "
    "run resourcesusedwalltime resourceswalltime ruwallclock | walltime wallclock",
    "wait": "wait waittime waiting waitingtime queuetime queueingtime queuingtime",
    "gpus": "gpus gpu ngpus ngpu numgpus numgpu gpunum gpucount numberofgpus requestedgpus "
    "gpusrequested reqgpus gpurequest allocgpus allocatedgpus gpusallocated resourcelistngpus | "
    "cards accelerators numaccelerators | gresused",
    "gpus_per_node": "gpuspernode gpupernode ngpuspernode ngpupernode numgpuspernode "
    "numgpupernode gpucountpernode gpusperhost gpuperhost gpusperserver",
    "gpu_type": "gputype gpumodel gpukind acceleratortype",
    "nodes": "nodes nnodes numnodes nodenum nodecount nodesalloc",
    "hosts": "hosts nodelist nodenames hostnames",
    "user": "user username userid owner iduser",
    "tenant": "tenant account project team group queue partition vc namespace organization",
    "pool": "partition queue vc virtualcluster pool",
    "model": "model modelname jobtype application app workload kind type",
    "state": "state status jobstate jobstatus outcome",
    "deadline": "deadline deadlinetime due duedate duetime",
    "limit": "timelimit walltimelimit joblimit limit reqtime requestedtime timerequested "
    "maxwalltime",
    "qos": "qos qualityofservice",
    "deadline_after": "",
    "priority": "",
    "checkpoint": "",
}
"""Names of columns by meaning: usual ones, then ambiguous ones after a bar. ``deadline_after``,
which counts from the submission, ``priority``, larger first, and ``checkpoint``, the time between
two checkpoints, are never guessed."""

_SPANS = ("duration", "wait", "limit", "deadline_after", "checkpoint")
_CLOCKED = ("submit", "start", "end", "deadline", *_SPANS)
_ONE_MEANING = ("submit", "start", "end", "duration", "wait", "gpus")
"""Meanings for which two candidate columns are refused; otherwise the first counts."""

_HEADER_UNITS = {word: unit_s for word, unit_s in UNITS.items() if word not in ("m", "w", "wk")}
"""Units at the end of a column's name; ``m`` is too ambiguous there."""
_TWO_PARTS = {"HH:MM": True, "MM:SS": False, "HH:MM:SS": False}
"""Units of durations with colons, and whether two parts are hours and minutes."""
_LIMITS = frozenset(
    ("limit", "timelimit", "requested", "request", "req", "reqd", "max", "maximum", "estimate",
     "estimated", "expected", "allowed", "quota")
)  # fmt: skip
"""Words in the name of a column of time limits."""
_NO_LIMIT = frozenset(("unlimited", "infinite", "partition_limit", "none"))
"""Words for no time limit."""
_MAYBE_LIMITS = frozenset(("walltime", "wallclock"))
"""Names of columns that are a limit at some sites; certain if the user names them."""
_SMALL_S = 200.0
"""Longest run time, in seconds, up to which a column without a unit may count hours."""
_LONG_WAITS = 10.0
"""Ratio of wait to run time, exceeded by every job, from which a unit may be wrong."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+", re.ASCII)
_COLUMN_UNIT = re.compile(r"(.+?)(?:\[([\w:/.-]+)\])?")
_COMPACT = re.compile(r"(?:19|20|21)[0-9]{12}", re.ASCII)
"""Pattern of ``20240501080000``, which is a date and no number of milliseconds."""
_AROUND = re.compile(r"^job_| by .*", re.ASCII | re.IGNORECASE)
"""Pattern of text around a state: ``JOB_FINISHED``, ``CANCELLED by 1001``."""
_SHOWN_STATES = 4

_STATES: dict[Outcome, str] = {
    "completed": "completed complete success succeeded successful succeed finished finish done "
    "pass passed ok normal cd",
    "failed": "failed failure fail error errored timeout timedout oom outofmemory nodefail "
    "nodefailure crashed crash preempted evicted exit exited lost bootfail deadline launchfailed "
    "requeued revoked nf pr to bf dl",
    "cancelled": "cancelled canceled cancel killed kill aborted abort stopped deleted removed ca",
}
_OUTCOMES = {word: outcome for outcome, words in _STATES.items() for word in words.split()}
_RUNNING = frozenset(
    ("running", "active", "suspended", "run", "completing", "ssusp", "ususp", "r", "cg", "st", "s")
)
_WAITING = frozenset(
    ("pending", "queued", "waiting", "submitted", "pend", "psusp", "configuring", "hold", "held",
     "pd", "q", "qw", "hqw", "w", "h")
)  # fmt: skip
_DATABASE = (
    "pending", "running", "suspended", "completed", "cancelled", "failed", "timeout", "nodefail",
    "preempted", "bootfail", "deadline", "oom",
)  # fmt: skip
"""States of slurmdbd's job table by number."""
_OF_DATABASE = frozenset(("id_job", "job_db_inx", "time_submit", "id_array_job"))
"""Columns that only slurmdbd's table has."""


class Column(NamedTuple):
    """A column of the table.

    Parameters
    ----------
    name
        As in the header.
    unit_s
        Seconds of its unit.
    known
        Whether the user or its name states the unit.
    hours_first
        Whether two parts of a duration are hours and minutes.
    asked
        Whether the user named it.
    item
        Name of the item that counts in a list ``name=amount,...``; "" for a plain cell.
    """

    name: str
    unit_s: float = 1.0
    known: bool = False
    hours_first: bool = False
    asked: bool = False
    item: str = ""


def columns_of(header: Sequence[str], asked: str | None) -> dict[str, Column]:
    """Return the column of each meaning, by the keys of `USUAL`.

    Parameters
    ----------
    header
        Names of the columns.
    asked
        ``WHAT=COLUMN,...`` for what is not to be guessed; nothing after ``=`` is no column.

    Raises
    ------
    InputError
        If there is no such column, two can be the same thing, or submission, GPUs or run time are
        missing.
    """
    found: dict[str, Column] = {}
    named = _named(header, asked) if asked else {}
    for what, words in USUAL.items():
        if what in named:
            found |= {} if named[what] is None else {what: named[what]}  # type: ignore[dict-item]
            continue
        for tier in words.split("|"):
            usual = tier.split()
            fitting = [one for one in header if _plain(one, what)[0] in usual]
            if what == "gpus" and "gpus_per_node" in named:
                fitting = []
            if len(fitting) > 1 and what in _ONE_MEANING:
                option = typed("--columns")
                rule = f"can be {' or '.join(fitting)}: choose one with {option} {what}=COLUMN"
                raise InputError(rule, field=what)
            if fitting:
                best = min(fitting, key=lambda one: usual.index(_plain(one, what)[0]))
                unit_s = _plain(best, what)[1]
                found[what] = Column(best, unit_s or 1.0, known=unit_s is not None)
                break
    sizes = ("nodes",) if "gpus" not in found and "gpus_per_node" in found else ("gpus",)
    missing = [what for what in ("submit", *sizes) if what not in found]
    if not {"duration", "end"} & set(found):
        missing.append("duration")
    if not any(header):
        raise InputError(f"has no header, which needs {', '.join(missing)}")
    if missing:
        has = ", ".join(header)
        rule = (
            f"no column is known as {' or as '.join(missing)}: the header has {has}; "
            f"name them with {typed('--columns')} {','.join(f'{what}=COLUMN' for what in missing)}"
        )
        if "duration" in missing:
            rule += ", or end=COLUMN for a duration"
        raise InputError(rule)
    return found


def _named(header: Sequence[str], asked: str) -> dict[str, Column | None]:
    """Return the columns that the user named."""
    found: dict[str, Column | None] = {}
    for item in asked.split(","):
        what, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise InputError(f"must be WHAT=COLUMN,..., got {item!r}", field="columns")
        if what not in USUAL:
            raise InputError(unknown("column", what, USUAL), field="columns")
        if what in found:
            raise InputError(f"names {what} twice", field="columns")
        if not text:
            found[what] = None
            continue
        parts = _COLUMN_UNIT.fullmatch(text)
        assert parts is not None  # whatever the text is
        column, unit = (text, None) if text in header else (parts[1], parts[2])
        if column not in header:
            rule = f"no column {column!r}{did_you_mean(column, header)}; the header has "
            raise InputError(rule + ", ".join(header), field="columns")
        found[what] = _in_units(what, column, unit)
    return found


def _in_units(what: str, column: str, unit: str | None) -> Column:
    """Return a column that the user named, with its unit."""
    if unit is None:
        unit_s = _plain(column, what)[1]
        return Column(column, unit_s or 1.0, known=unit_s is not None, asked=True)
    if what in _SPANS and unit.upper() in _TWO_PARTS:
        hours_first = _TWO_PARTS[unit.upper()]
        return Column(column, known=True, hours_first=hours_first, asked=True)
    if what in ("gpus", "gpus_per_node") and unit not in UNITS:
        return Column(column, asked=True, item=unit)
    if unit not in UNITS or what not in _CLOCKED:
        listed = ", ".join((*UNITS, *(_TWO_PARTS if what in _SPANS else ())))
        rule = f"unknown unit of {what}: {unit!r}; known are {listed}"
        raise InputError(rule, field="columns")
    return Column(column, UNITS[unit], known=True, asked=True)


def _plain(name: str, what: str) -> tuple[str, float | None]:
    """Return a name's letters in lower case, and the seconds of a unit at its end.

    A column that is called ``hours`` counts hours, whatever it is taken for.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if what in _CLOCKED and words and words[-1] in _HEADER_UNITS:
        return "".join(words[:-1]), _HEADER_UNITS[words[-1]]
    return "".join(words), None


class OwnTableReader(TableReader):
    """Reader of any table with a line per job that has submission, GPUs and run time.

    Derive from it with ``columns`` set for a format of one's own.
    """

    name, zone = "table", "UTC"
    dates_or_seconds = True
    options = ("columns",)
    separators = ("\t", ";", "|", ",")
    columns: ClassVar[str] = ""
    """Default of ``--columns``, ``WHAT=COLUMN,...``."""
    statuses: ClassVar[Mapping[str, Outcome]] = _OUTCOMES
    _columns: dict[str, Column]

    def __init__(self, path: Path, how: Reading, clock: Clock, report: Report) -> None:
        super().__init__(path, how, clock, report)
        self._seen = _Seen()
        self._unread: tuple[str, ...] = ()
        self._of_database = False

    @classmethod
    def layout(cls, head: Head) -> dict[str, str] | None:
        """Recognise the format by columns that can be guessed."""
        columns_of(cls.split(head.line), cls.columns)
        return {}

    def _header(self, cells: list[str], file: str, line: int) -> list[str]:
        header = super()._header(cells, file, line)
        try:
            self._columns = columns_of(header, self.how.columns or self.columns)
        except InputError as error:
            if error.field == "columns":  # what is wrong is the option
                raise
            raise error.located(file=file, line=line) from None
        self._of_database = bool(_OF_DATABASE & set(header))
        used = {one.name for one in self._columns.values()}
        self._unread = tuple(
            name for name in header if name not in used and not name.startswith("(unnamed")
        )
        # Without ids, identical lines are different jobs.
        self.ids = "job" in self._columns  # type: ignore[misc]
        return header

    def assumed(self) -> list[str]:
        """Return the meaning of each column, and the columns that are not read."""
        known = getattr(self, "_columns", {})
        if not known:
            return super().assumed()
        named = [
            f"{what}={one.name}" + ("" if one.unit_s == 1.0 else f" in units of {one.unit_s:g} s")
            for what, one in known.items()
        ]
        found = ["columns are " + ", ".join(named)]
        if self._unread:
            found.append("columns not read: " + ", ".join(self._unread))
        if "nodes" in known and "gpus" in known:
            found.append(f"{known['gpus'].name} counts the GPUs of the whole job")
        if "duration" not in known and not {"start", "wait"} & set(known):
            found.append("run time is end - submit, which contains the queueing")
        return found + super().assumed()

    def row(self, record: Record) -> LogRow:
        """Return the job of a line."""
        row = cells_row(record)
        submit_s = self._instant(row, "submit")
        if submit_s is None:
            raise row.error(self._columns["submit"].name, "must not be empty: it is the submission")
        start_s, end_s = (self._instant(row, one, submit_s) for one in ("start", "end"))
        recorded_s, wait_s = self._span(row, "duration"), self._span(row, "wait")
        start_s, end_s = self._completed(submit_s, start_s, end_s, recorded_s, wait_s)
        between_s = span_s(start_s, end_s)
        run_s = recorded_s if between_s is None else between_s
        if end_s is None and start_s is not None and run_s is not None:
            end_s = start_s + run_s
        status = self._text(row, "state")
        outcome = self._outcome(row, status)
        nodes = self._nodes(row)
        gpus = self._gpus(row, nodes)
        self.unsized = "not-started" in self.reasons and self._text(row, "gpus") in NOTHING
        found = LogRow(
            self._text(row, "job") or f"line-{row.line}",
            row.line,
            submit_s,
            start_s=start_s,
            end_s=end_s,
            run_s=run_s,
            recorded_s=recorded_s,
            gpus=gpus,
            gpu_type=self._text(row, "gpu_type") or None,
            nodes=nodes,
            status=status,
            outcome=outcome,
            tenant=self._text(row, "tenant"),
            user=self._text(row, "user"),
            kind=self._text(row, "model") or None,
            hosts=self._text(row, "hosts") or None,
            pool=self._text(row, "pool"),
            limit_s=self._limit(row),
            qos=self._text(row, "qos"),
            priority=self._priority(row),
            checkpoint_s=self._span(row, "checkpoint"),
        )
        self._seen.add(found)
        found = found._replace(deadline_s=self._deadline(row, submit_s))
        self.compare(found, wait_s)
        return found

    def _completed(
        self,
        submit_s: float,
        start_s: float | None,
        end_s: float | None,
        recorded_s: float | None,
        wait_s: float | None,
    ) -> tuple[float | None, float | None]:
        """Return start and end, each worked out from the other if the table lacks it.

        Without a start, in a table that has starts, a job never started; without an end and a run
        time, in a table that has ends, it still ran.
        """
        ran = recorded_s is not None and recorded_s > 0.0
        if start_s is None and wait_s is not None and (ran or end_s is not None):
            start_s = submit_s + wait_s
        if start_s is None and end_s is not None and recorded_s is not None and ran:
            start_s = end_s - recorded_s
        if start_s is None and "start" in self._columns and not ran:
            self.reasons.append("not-started")
        elif start_s is None and end_s is not None and recorded_s is None:
            start_s = submit_s
        elif start_s is not None and end_s is None and recorded_s is None:
            self.reasons.append("still-running")
        return start_s, end_s

    def _outcome(self, row: Row, status: str) -> Outcome:
        """Return the outcome of a state; note waiting and running jobs, and unknown words."""
        if is_nothing(status):
            return "unknown"
        word = "".join(_WORD.findall(_AROUND.sub("", status).upper())).lower()
        if self._of_database and word.isdecimal() and int(word) % 256 < len(_DATABASE):
            word = _DATABASE[int(word) % 256]
        if word in _WAITING:
            self.reasons.append("not-started")
        elif word in _RUNNING:
            self.reasons.append("still-running")
        elif word not in self.statuses:
            self._seen.state(status, row.line)
        return self.statuses.get(word, "unknown")

    def _nodes(self, row: Row) -> int | None:
        """Return the number of nodes; None if it is not known."""
        text = self._text(row, "nodes")
        value = None if is_nothing(text) else self._number(row, "nodes", text)
        return int(value) if value is not None and value >= 1.0 and value == int(value) else None

    def _gpus(self, row: Row, nodes: int | None) -> Gpus:
        """Return the GPUs of the whole job."""
        what = "gpus" if "gpus" in self._columns else "gpus_per_node"
        text = self._text(row, what)
        if is_nothing(text) or text == "-1":
            return 0
        column = self._columns[what]
        gpus = self._listed_gpus(row, column.name, _item(text, column.item))
        if what == "gpus":
            return gpus
        if nodes is None:
            raise row.error(self._columns["nodes"].name, "must be given with GPUs per node")
        return gpus * nodes

    def _listed_gpus(self, row: Row, column: str, text: str) -> Gpus:
        """Return GPUs of a number, or of Slurm's ``gpu:a100:4`` and ``gres/gpu=4``."""
        if "gpu" not in text.lower():
            self._mark(text)
            return gpus_of(row, column, text)
        tres = row.built(lambda: Tres.of(text if "=" in text else tres_of_gres(text)), column)
        if tres.sliced:
            self.reasons.append("mig-slice")
        return tres.gpus

    def _deadline(self, row: Row, submit_s: float) -> float | None:
        """Return the instant of the deadline; None without one, or for one that is past."""
        after_s = self._span(row, "deadline_after")
        due_s = self._instant(row, "deadline", submit_s)
        if due_s is None and after_s is not None:
            due_s = submit_s + after_s
        if due_s is None or due_s > submit_s:
            return due_s
        self._seen.past.append(row.line)
        return None

    def _limit(self, row: Row) -> float | None:
        """Return the time limit; None without one."""
        if self._text(row, "limit").strip().lower() in _NO_LIMIT:
            return None
        return self._span(row, "limit") or None

    def _priority(self, row: Row) -> float:
        """Return the priority; 0 without one."""
        text = self._text(row, "priority")
        if is_nothing(text):
            return 0.0
        value = self._number(row, "priority", text)
        if value is None:
            raise row.error(self._columns["priority"].name, f"must be a number, got {text!r}")
        return value

    def finish(self) -> None:
        """Add warnings about possible misreadings to the report."""
        if hasattr(self, "_columns"):
            self._seen.tell(self.report, self._columns)

    def _text(self, row: Row, what: str) -> str:
        """Return the cell of a column; "" if the table has none."""
        column = self._columns.get(what)
        return "" if column is None else row.cells[column.name]

    def _mark(self, text: str) -> None:
        """Note a number with a decimal comma."""
        if has_mark(text):
            self.find("decimal-comma")

    def _number(self, row: Row, what: str, text: str) -> float | None:
        """Return a number of a cell; None for other text."""
        value = row.built(lambda: number_of(text), self._columns[what].name)
        if value is not None:
            self._mark(text)
        return value

    def _instant(self, row: Row, what: str, submit_s: float | None = None) -> float | None:
        """Return seconds of a date or a number; None for no time."""
        text = self._text(row, what)
        if is_nothing(text):
            return None
        column = self._columns[what]
        number = None if _COMPACT.fullmatch(text) else self._number(row, what, text)
        if number is None:
            return self.set_or_none(self._clocked(text, row, column.name), submit_s)
        value = number * column.unit_s
        self._seen.milliseconds |= value >= MILLISECONDS_FROM
        value = epoch_s(value)
        self.clock.zoned += value >= EPOCH_FROM
        return self.set_or_none(value, submit_s)

    def _span(self, row: Row, what: str) -> float | None:
        """Return seconds of a number, or of ``1-02:03:04`` and the like; None for no value."""
        text = self._text(row, what)
        if is_nothing(text):
            return None
        column = self._columns[what]
        number = self._number(row, what, text)
        if number is not None:
            self._seen.plain.add(what)
            return None if number == -1.0 else number * column.unit_s
        if is_two_part(text) and not column.known:
            self._seen.two_parts.append((row.line, text, what))
        try:
            return elapsed_s(text, hours_first=column.hours_first)
        except InputError as error:
            raise row.error(column.name, f"{error.rule}, or a number") from None


def _item(text: str, item: str) -> str:
    """Return the amount of an item in a list ``name=amount,...``; the text if none is named."""
    if not item:
        return text
    amounts = (part.partition("=") for part in text.split(","))
    return next((amount for name, _, amount in amounts if name.strip() == item), "0")


class _Seen:
    """Facts about a table from which a misreading is suspected.

    Attributes
    ----------
    milliseconds
        Whether an instant counts milliseconds since 1970.
    plain
        Spans that are plain numbers.
    two_parts
        Durations of two parts without a unit: line, text, column's meaning.
    past
        Lines with a deadline that is not after the submission.
    """

    def __init__(self) -> None:
        self.milliseconds = False
        self.plain: set[str] = set()
        self.two_parts: list[tuple[int, str, str]] = []
        self.past: list[int] = []
        self._states: dict[str, list[int]] = {}
        self._gpus_on: dict[int, Gpus] = {}
        self._fewer = 0
        self._several = 0
        self._rows = 0
        self._most_s = 0.0
        self._least_wait = math.inf

    def state(self, status: str, line: int) -> None:
        """Note a state that is not known."""
        self._states.setdefault(status, []).append(line)

    def add(self, row: LogRow) -> None:
        """Note sizes and times of a row."""
        gpus, nodes, recorded_s = row.gpus, row.nodes, row.recorded_s
        if gpus and nodes is not None:
            self._gpus_on[nodes] = max(gpus, self._gpus_on.get(nodes, 0))
            self._several += nodes > 1
            self._fewer += gpus < nodes
        if recorded_s is not None and recorded_s > 0.0:
            self._rows += 1
            self._most_s = max(self._most_s, recorded_s)
            if row.end_s is not None:
                waits = (row.end_s - row.submit_s) / recorded_s
                self._least_wait = min(self._least_wait, waits)

    def tell(self, report: Report, columns: Mapping[str, Column]) -> None:
        """Add warnings about outcomes, durations, deadlines and sizes to the report."""
        if self._states:
            lines = [line for listed in self._states.values() for line in listed]
            names = list(self._states)[:_SHOWN_STATES]
            report.found("unknown-outcome", min(lines), len(lines), states=", ".join(names))
        if self.two_parts:
            line, text, what = self.two_parts[0]
            option = f"--columns {what}={columns[what].name}[HH:MM]"
            count = len(self.two_parts)
            report.found("two-part-durations", line, count, example=text, option=option)
        if self.past:
            report.found("past-deadline", self.past[0], len(self.past))
        self._tell_units(report, columns)
        self._tell_gpus(report, columns)

    def _tell_units(self, report: Report, columns: Mapping[str, Column]) -> None:
        """Add warnings about units of run times."""
        duration = columns.get("duration")
        if duration is None or not self._rows or {"start", "end"} <= set(columns):
            return
        words = {word.lower() for word in _WORD.findall(duration.name)}
        maybe = bool(words & _MAYBE_LIMITS) and not duration.asked and not words & {"used"}
        if words & _LIMITS or maybe:
            report.found("limit-as-duration", None, 1, column=duration.name)
        if duration.known or "duration" not in self.plain:
            return
        option = f"--columns duration={duration.name}[UNIT]"
        named = {"column": duration.name, "option": option}
        if self.milliseconds:
            report.found("milliseconds", None, 1, **named)
        elif self._most_s <= _SMALL_S and self._rows > 1:
            report.found("small-durations", None, self._rows, most=self._most_s, **named)
        elif "start" not in columns and _LONG_WAITS <= self._least_wait < math.inf:
            report.found("long-waits", None, self._rows, least=self._least_wait, **named)

    def _tell_gpus(self, report: Report, columns: Mapping[str, Column]) -> None:
        """Add warnings about GPUs on several nodes."""
        if "gpus" not in columns:
            return
        column = columns["gpus"].name
        if self._fewer:
            report.found("fewer-gpus-than-nodes", None, self._fewer, column=column)
        elif len(self._gpus_on) > 1:
            least, most = min(self._gpus_on), max(self._gpus_on)
            if self._gpus_on[most] <= self._gpus_on[least]:
                report.found("gpus-per-node", None, self._several, column=column)
