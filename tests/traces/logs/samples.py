"""Invented logs: one small good one per format, and how a test reads text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from morph_opt.traces.logs import LogRow, Reading, Report, Scan, log_format

SACCT = (
    "JobIDRaw|User|Account|Partition|Submit|Start|End|ElapsedRaw|State|ReqTRES|AllocTRES|JobName"
)


def sacct(
    job: str = "7", submit: str = "08:00:00", start: str = "08:00:10", end: str = "09:00:10",
    elapsed: str = "3600", state: str = "COMPLETED", asked: str = "gres/gpu=8",
    held: str = "cpu=64,gres/gpu=8", name: str = "run",
) -> str:  # fmt: skip
    """A line; times are of one day unless they name another."""
    times = (
        t if "T" in t or not t[:1].isdigit() else f"2024-05-01T{t}" for t in (submit, start, end)
    )
    return "|".join((job, "ada", "ml", "gpu", *times, elapsed, state, asked, held, name))


PLAIN = Reading()


@dataclass(frozen=True)
class Sample:
    """A good log.

    `gpu_s` is worked out by hand next to the text; None where the format tells no durations.
    `broken` is a line (or, in JSON, an element) that no reader of the format can take.
    """

    head: tuple[str, ...]
    lines: tuple[str, ...]
    gpu_s: float | None
    broken: str
    tail: tuple[str, ...] = ()
    join: str = "\n"
    name: str = "log.txt"
    how: Reading = PLAIN

    def text(self, lines: Iterable[str] | None = None) -> str:
        """The file's text, with other rows."""
        rows = self.join.join(self.lines if lines is None else lines)
        return "\n".join((*self.head, rows, *self.tail)) + "\n"


SAMPLES: dict[str, Sample] = {
    "acme": Sample(
        (
            "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,"
            "duration,queue,gpu_time",
        ),
        (
            "71,u1,2,16,256,SFT,COMPLETED,2023-04-02 09:00:00+08:00,2023-04-02 09:00:07+08:00,"
            "2023-04-02 10:00:07+08:00,3600,7,57600.0",
            "72,u2,1,4,16,Eval,FAILED,2023-04-02 09:30:00+08:00,2023-04-02 09:30:00+08:00,"
            "2023-04-02 09:31:40+08:00,100,0,400.0",
        ),
        16 * 3600 + 4 * 100,
        "73,u1,2,sixteen,256,SFT,COMPLETED,2023-04-02 09:00:00+08:00,2023-04-02 09:00:07+08:00,"
        "2023-04-02 10:00:07+08:00,3600,7,57600.0",
    ),
    "helios": Sample(
        (
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,"
            "duration,queue",
        ),
        (
            "88,uQ,vcA,8,48,1,TIMEOUT,2020-07-03 08:00:00,2020-07-03 08:00:05,"
            "2020-07-03 20:00:05,43200,5",
            "89,uR,vcB,1,6,1,COMPLETED,2020-07-03 09:00:00,2020-07-03 09:10:00,"
            "2020-07-03 09:20:00,600,600",
        ),
        8 * 43200 + 600,
        "90,uR,vcB,1,6,1,COMPLETED,yesterday,2020-07-03 09:10:00,2020-07-03 09:20:00,600,600",
    ),
    "sacct": Sample(
        (SACCT,),
        (
            sacct(),
            sacct(
                "8", "08:30:00", "08:45:00", "08:46:00", "60", "CANCELLED by 1001",
                "gres/gpu=2", "gres/gpu=2",
            ),
        ),
        8 * 3600 + 2 * 60,
        sacct("9", held="gres/gpu=many"),
    ),
}  # fmt: skip


def read(
    tmp_path: Path, format_name: str, text: str, how: Reading | None = None, *,
    strict: bool = False, name: str = "log.txt",
) -> tuple[list[LogRow], Report]:  # fmt: skip
    """Jobs and report of a text."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8", newline="")
    scan = Scan(path, log_format(format_name), how, strict=strict)
    return list(scan.jobs()), scan.report


def read_sacct(
    tmp_path: Path, *lines: str, header: str = SACCT, how: Reading | None = None
) -> tuple[list[LogRow], Report]:
    """Jobs and report of these lines below a header."""
    return read(tmp_path, "sacct", "\n".join((header, *lines)) + "\n", how)
