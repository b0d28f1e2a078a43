"""What a log format is: the one value that a new reader adds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from morph_opt.domain import InputError
from morph_opt.traces.logs.reading.clock import Clock
from morph_opt.traces.logs.reading.reader import Reader
from morph_opt.traces.logs.reading.report import Report
from morph_opt.traces.logs.reading.row import Reading

_EVERYWHERE = ("gpu_shares", "only", "window")


@dataclass(frozen=True, slots=True)
class LogFormat:
    """A kind of log.

    Parameters
    ----------
    name
        What is typed in front of a path.
    title
        One line.
    reader
        Its reader.
    zone
        Zone of times that name none; None where times are numbers of seconds.
    options
        Fields of `Reading` that it knows, beside those that all know.
    relative
        Whether its clock counts from a 0 that means something; others count from the first job.
    needed
        Fields of `Reading` without which its jobs cannot be replayed.
    ids
        Whether its rows have ids, so that identical ones are the same row twice.
    durations
        Whether it tells how long jobs ran.
    folds
        Whether several rows may be one job.
    published
        Row counts of the published traces of this format.
    taken
        What is taken for granted of every such log, in sentences.
    """

    name: str
    title: str
    reader: type[Reader]
    zone: str | None
    options: tuple[str, ...] = ()
    relative: bool = False
    needed: tuple[str, ...] = ()
    ids: bool = True
    durations: bool = True
    folds: bool = False
    published: tuple[int, ...] = ()
    taken: tuple[str, ...] = ()

    def understood(self, how: Reading) -> Reading:
        """How to read, if the format knows every option that is given.

        Raises
        ------
        InputError
            Naming the option.
        """
        known = (*self.options, *_EVERYWHERE, *(("timezone",) if self.zone else ()))
        plain = Reading()
        for one in fields(how):
            if getattr(how, one.name) != getattr(plain, one.name) and one.name not in known:
                rule = f"has no effect on format {self.name}"
                raise InputError(rule, field=one.name)
        return how

    def options_of(self, how: Reading) -> dict[str, str | int]:
        """Options that differ from the default ones."""
        plain = Reading()
        values = {one.name: getattr(how, one.name) for one in fields(how)}
        return {name: v for name, v in values.items() if v != getattr(plain, name)}

    def published_near(self, rows: int, least_share: float) -> int | None:
        """The published trace that a log of so many rows is a selection of; None if none or all."""
        if rows in self.published:
            return None
        larger = [count for count in self.published if least_share * count <= rows < count]
        return min(larger, default=None)

    def clock(self, how: Reading) -> Clock:
        """The clock of such a log."""
        return Clock(how.timezone or self.zone or "UTC")

    def names(self, reader: Reader) -> Iterator[str]:
        """Names of the rows, read for nothing else."""
        for record in reader.records():
            if not isinstance(record.content, InputError):
                yield reader.name_of(record)

    def assumed(self, how: Reading, report: Report) -> list[str]:
        """What the log does not say and was taken to be so."""
        found = list(self.taken)
        if "naive-time" in report.findings:
            zone = how.timezone or self.zone
            found.append(f"times without a zone are of {zone}")
        if "procs_per_gpu" in self.options and how.procs_per_gpu is None:
            found.append("one processor stands for one GPU (--procs-per-gpu)")
        if how.gpu_shares == "round-up":
            found.append("a share of a GPU is a whole one")
        return found
