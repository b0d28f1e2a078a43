"""Traps of every format, each as an invented text: what becomes of its rows, and what is said."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from morph_opt.inputs.traces.logs.lint import lint
from morph_opt.inputs.traces.logs.reading.report import CHECKS
from morph_opt.inputs.traces.logs.reading.row import REASONS, Reading
from tests.traces.logs.samples import PLAIN, SACCT, SAMPLES, put, sacct, vcjob, workload


@dataclass(frozen=True)
class Trap:
    """Rows below a format's header: GPU-seconds of the jobs, rows dropped, findings.

    `codes` has the findings that must be there with their counts; other notes may be.
    """

    format: str
    rows: tuple[str, ...]
    gpu_s: float | None = 0.0
    dropped: dict[str, int] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    how: Reading = PLAIN
    cluster: int | None = None
    beside: dict[str, str] = field(default_factory=dict)
    head: tuple[str, ...] | None = None


def philly(*attempts: tuple[str | None, str | None, int], status: str = "Pass") -> str:
    """A job of 2017-10-02 with these attempts: start, end, GPUs."""
    listed = [
        {
            "start_time": s if s is None or not s[0].isdigit() else f"2017-10-02 {s}",
            "end_time": e if e is None or not e[0].isdigit() else f"2017-10-02 {e}",
            "detail": [{"ip": "m", "gpus": [f"gpu{i}" for i in range(n)]}],
        }
        for s, e, n in attempts
    ]
    job = {"status": status, "vc": "v", "jobid": "a", "user": "u", "attempts": listed}
    return json.dumps(job | {"submitted_time": "2017-10-02 10:00:00"})


def pai(*tasks: str, job: str = "j,i,u,Terminated,100,900") -> dict[str, object]:
    """The two tables of one job; a task is ``inst_num,start,plan_gpu,type``."""
    rows = []
    for task in tasks:
        number, start, percent, kind = task.split(",")
        rows.append(f"j,worker,{number},Terminated,{start},900,600,29,{percent},{kind}\n")
    return {"rows": (job,), "beside": {"pai/pai_task_table.csv": "".join(rows)}}


def pod(
    phase: str = "Succeeded", gpus: str = "1,1000", times: str = "40,940,52", name: str = "p"
) -> str:
    return f"{name},8000,30720,{gpus},,LS,{phase},{times}"


def swf(**changes: object) -> str:
    """A line of 18 numbers; names are those of places."""
    plain = {"job": 1, "submit": 0, "wait": 10, "run": 100, "procs": 8, "asked": 8}
    values = plain | {"limit": -1, "status": 1} | changes
    return (
        "{job} {submit} {wait} {run} {procs} -1 -1 {asked} {limit} -1 {status} 3 1 -1 1 1 -1 -1"
    ).format(**values)


def status(*conditions: tuple[str, str, str], **more: object) -> dict[str, object]:
    listed = [
        {
            "type": kind,
            "status": state,
            "reason": "Succeeded" if kind == "Finished" else kind,
            "lastTransitionTime": f"2024-05-01T{at}Z",
        }
        for kind, state, at in conditions
    ]
    return {"conditions": listed, **more}


DONE = (("Admitted", "True", "08:10:00"), ("Finished", "True", "08:20:00"))


def admission(gpus: str, *flavors: str) -> dict[str, object]:
    parts = [
        {"resourceUsage": {"nvidia.com/gpu": gpus}, "flavors": {"nvidia.com/gpu": flavor}}
        for flavor in flavors
    ]
    return {"admission": {"podSetAssignments": parts}}


def batsim(**changes: object) -> str:
    return json.dumps({"id": 1, "subtime": 0, "res": 4, "profile": "p"} | changes)


H = "u,v,8,1,{state},2020-07-03 {0},2020-07-03 {1},2020-07-03 {2}"
HELIOS = ("job_id,user,vc,gpu_num,node_num,state,submit_time,start_time,end_time",)


def helios(*lines: tuple[str, str, str], state: str = "COMPLETED") -> tuple[str, ...]:
    return tuple(f"{i},{H.format(*line, state=state)}" for i, line in enumerate(lines))


LONG = ("08:00:00", "08:00:00", "20:00:00")

TRAPS: dict[str, Trap] = {
    # ---------------------------------------------------------------- philly
    "attempts of a job are one job": Trap(
        "philly", (philly(("10:00:00", "10:10:00", 2), ("10:20:00", "10:25:00", 4)),),
        2 * 600 + 4 * 300, codes={"retried": 1, "gpus-differ-between-attempts": 1},
    ),
    "a row that is cut is dropped where that is said": Trap(
        "table", ("a,0,8,60,ada,done", "b,60,2"), 8 * 60, {"malformed": 1},
        {"malformed-dropped": 1}, Reading(malformed="drop"),
    ),
    "no attempt": Trap("philly", (philly(),), dropped={"no-gpu": 1}),
    "attempts that never began": Trap(
        "philly", (philly((None, None, 2)),), dropped={"not-started": 1}
    ),
    "the last attempt is open": Trap(
        "philly", (philly(("10:00:00", "10:10:00", 2), ("10:20:00", None, 2)),),
        dropped={"still-running": 1},
    ),
    "None is null": Trap(
        "philly", (philly(("10:00:00", "None", 2), status="Killed"),),
        dropped={"still-running": 1},
    ),
    "an attempt without times is left out": Trap(
        "philly", (philly(("10:00:00", None, 2), ("10:20:00", "10:30:00", 2)),), 1200.0,
        codes={"attempt-without-times": 1},
    ),
    "an attempt that ends before it starts": Trap(
        "philly", (philly(("10:10:00", "10:00:00", 2), ("10:20:00", "10:50:00", 2)),),
        dropped={"negative-duration": 1}, codes={"negative-duration": 1},
    ),
    "a time that is no text": Trap(
        "philly", (philly((["x"], "10:10:00", 2)),), dropped={"malformed": 1},  # type: ignore[arg-type]
        codes={"malformed": 1},
    ),
    "requests that are no table": Trap(
        "kueue", (workload("a", requests=[1]),), dropped={"malformed": 1}, codes={"malformed": 1}
    ),
    "another state": Trap(
        "philly", (philly(("10:00:00", "10:10:00", 2), status="Maybe"),),
        dropped={"unknown-status": 1}, codes={"unknown-status": 1},
    ),
    "an hour that exists twice": Trap(
        "philly-table", ("2017-11-05 01:30:00,600,1,600,a",), 600.0,
        codes={"dst-overlap": 1, "naive-time": 1},
    ),
    "rows without ids": Trap(
        "philly-table", ("2017-11-06 01:30:00,600,1,600,a",) * 3, 1800.0,
        codes={"identical-rows": 2},
    ),
    "GPU time that is something else": Trap(
        "philly-table", ("2017-11-06 01:30:00,600,2,600,a",), 1200.0,
        codes={"gpu-time-mismatch": 1},
    ),
    # ---------------------------------------------------------------- pai
    "GPUs are instances times plan": Trap(
        "pai", gpu_s=8 * 780 + 0.0, **pai("4,130,200,V100", "1,120,,"),  # type: ignore[arg-type]
    ),
    "two halves are shares": Trap(
        "pai", dropped={"fractional-gpu": 1}, **pai("2,120,50,V100"),  # type: ignore[arg-type]
    ),
    "two halves rounded up are two GPUs": Trap(
        "pai", gpu_s=2 * 780.0, codes={"gpu-shares-rounded": 1},
        how=Reading(gpu_shares="round-up"), **pai("2,120,50,V100"),  # type: ignore[arg-type]
    ),
    "no task": Trap(
        "pai", ("j,i,u,Terminated,100,900",), dropped={"no-task-rows": 1},
        beside={"pai/pai_task_table.csv": "k,worker,1,Terminated,1,2,1,1,100,T4\n"},
    ),
    "no task, and an unknown state": Trap(
        "pai", ("j,i,u,Lost,100,900",), dropped={"unknown-status": 1},
        beside={"pai/pai_task_table.csv": ""},
    ),
    "a job that waits": Trap(
        "pai", dropped={"not-started": 1},
        **pai("1,,100,T4", job="j,i,u,Waiting,100,"),  # type: ignore[arg-type]
    ),
    "a job that runs": Trap(
        "pai", dropped={"still-running": 1},
        **pai("1,120,100,T4", job="j,i,u,Running,100,"),  # type: ignore[arg-type]
    ),
    "tasks on two types": Trap(
        "pai", dropped={"mixed-gpu-types": 1}, **pai("1,120,100,T4", "1,120,100,V100"),  # type: ignore[arg-type]
    ),
    "a header that the format has not": Trap(
        "pai", ("job_name,inst_id,user,status,start_time,end_time", "j,i,u,Terminated,100,900"),
        780.0, codes={"header-row": 1},
        beside={"pai/pai_task_table.csv": "j,w,1,Terminated,120,900,1,1,100,T4\n"},
    ),
    # ---------------------------------------------------------------- openb, spot
    "a pod that was never placed": Trap("openb", (pod("Pending"),), dropped={"not-started": 1}),
    "a pod without an end": Trap(
        "openb", (pod("Running", times="40,,52"),), dropped={"still-running": 1}
    ),
    "a share of a GPU": Trap("openb", (pod(gpus="1,460"),), dropped={"fractional-gpu": 1}),
    "a share of a GPU, never placed": Trap(
        "openb", (pod("Pending", gpus="1,460"),), dropped={"not-started": 1}
    ),
    "no GPU, never placed": Trap("openb", (pod("Pending", gpus="0,0"),), dropped={"no-gpu": 1}),
    "a share rounded up": Trap(
        "openb", (pod(gpus="1,500"),), 888.0, codes={"gpu-shares-rounded": 1},
        how=Reading(gpu_shares="round-up"),
    ),
    "pods that end with the log": Trap(
        "openb",
        tuple(pod(name=t[:4].replace(",", "-"), times=t) for t in ("0,50,0", "0,99,0", "9,99,9")),
        50 + 99 + 90, codes={"open-at-end": 2},
    ),
    "GPUs of workers": Trap("spot", ("12,4,A10,16,2,8,0,900,Spot",), 16 * 900),
    "a share of a GPU per worker": Trap(
        "spot", ("12,4,A10,16,0.5,8,0,900,Spot",), dropped={"fractional-gpu": 1}
    ),
    "a spot job without a duration": Trap(
        "spot", ("12,4,A10,16,2,8,0,,Spot",), dropped={"no-duration": 1}
    ),
    # ---------------------------------------------------------------- swf
    "-1 is missing": Trap("swf", (swf(run=-1),), dropped={"no-duration": 1}),
    "no processors": Trap("swf", (swf(procs=-1, asked=-1),), dropped={"no-gpu": 1}),
    "requested processors where none are recorded": Trap("swf", (swf(procs=-1, asked=4),), 400.0),
    "parts of a checkpointed job": Trap(
        "swf", (swf(), swf(status=2), swf(status=3, run=-1), swf(status=4)), 800.0,
        {"partial-line": 3},
    ),
    "a cancelled job may have run": Trap("swf", (swf(status=5),), 800.0),
    "under half a second": Trap(
        "swf", (swf(run=0),), dropped={"zero-duration": 1}, codes={"zero-duration": 1}
    ),
    "another state of the standard": Trap("swf", (swf(status=9),), dropped={"unknown-status": 1}),
    "processors that are no GPU": Trap(
        "swf", (swf(procs=12), swf(job=2, procs=16)), 200.0, {"fractional-gpu": 1},
        how=Reading(procs_per_gpu=8),
    ),
    "past the limit, on other processors": Trap(
        "swf", (swf(limit=60, asked=4),), 800.0,
        codes={"over-time-limit": 1, "allocated-not-requested": 1},
    ),
    "a header that counts other jobs": Trap(
        "swf", ("; MaxJobs: 527371", swf()), 800.0, codes={"header-disagrees": 1}
    ),
    "a start before the submission": Trap(
        "swf", (swf(wait=-5),), 800.0, codes={"start-before-submit": 1}
    ),
    "submissions out of order": Trap(
        "swf", (swf(submit=9), swf(job=2, submit=3)), 1600.0, codes={"unsorted": 1}
    ),
    "17 fields": Trap(
        "swf", (swf()[:-3],), dropped={"malformed": 1}, codes={"malformed": 1}
    ),
    # ---------------------------------------------------------------- kueue
    "fewer pods were admitted": Trap(
        "kueue", (workload("a", status=status(*DONE, **admission("6", "a100"))),), 6 * 600,
        codes={"admitted-not-requested": 1},
    ),
    "two flavors": Trap(
        "kueue", (workload("a", status=status(*DONE, **admission("4", "a100", "h100"))),),
        dropped={"mixed-gpu-types": 1},
    ),
    "time before an eviction": Trap(
        "kueue", (workload("a", status=status(*DONE, accumulatedPastExecutionTimeSeconds=90)),),
        8 * 690, codes={"retried": 1},
    ),
    "the older spelling of that": Trap(
        "kueue", (workload("a", status=status(*DONE, accumulatedPastExexcutionTimeSeconds=90)),),
        8 * 690, codes={"retried": 1},
    ),
    "pods given back": Trap(
        "kueue",
        (workload("a", status=status(*DONE, reclaimablePods=[{"name": "main", "count": 1}])),),
        8 * 600, codes={"pods-reclaimed-early": 1},
    ),
    "not admitted": Trap("kueue", (workload("a", status={}),), dropped={"not-started": 1}),
    "evicted and waiting": Trap(
        "kueue", (workload("a", status=status(("Admitted", "False", "08:10:00"))),),
        dropped={"not-started": 1},
    ),
    "admitted and not finished": Trap(
        "kueue", (workload("a", status=status(DONE[0])),), dropped={"still-running": 1}
    ),
    "slices of GPUs": Trap(
        "kueue", (workload("a", requests={"nvidia.com/mig-1g.5gb": 1}),), dropped={"mig-slice": 1}
    ),
    "time slices of a GPU": Trap(
        "kueue", (workload("a", requests={"nvidia.com/gpu.shared": 4}),),
        dropped={"fractional-gpu": 1},
    ),
    "memory of a GPU": Trap(
        "kueue", (workload("a", requests={"nvidia.com/gpu": 1, "nvidia.com/gpumem": "4Gi"}),),
        dropped={"fractional-gpu": 1},
    ),
    "devices by claims": Trap(
        "kueue",
        (workload("a", requests={"cpu": 1}).replace(
            '"containers"', '"resourceClaims": [{"name": "gpu"}], "containers"'),),
        dropped={"resource-claims": 1},
    ),
    "another resource": Trap(
        "kueue", (workload("a", requests={"amd.com/gpu": 1}),), 4 * 3600.0,
        how=Reading(gpu_resource="amd.com/gpu"),
    ),
    "no GPU in Kubernetes": Trap(
        "kueue", (workload("a", requests={"cpu": "1500m"}),), dropped={"no-gpu": 1}
    ),
    # ---------------------------------------------------------------- volcano
    "terminated is no success, and ran": Trap("volcano", (vcjob("a", "Terminated", "1m"),), 240.0),
    "a job that is being aborted": Trap(
        "volcano", (vcjob("a", "Aborting"),), dropped={"still-running": 1}
    ),
    "a job in the queue": Trap("volcano", (vcjob("a", "Pending"),), dropped={"not-started": 1}),
    "conditions tell when it ran": Trap(
        "volcano",
        (
            vcjob("a", duration="1h30m", conditions=[
                {"status": "Pending", "lastTransitionTime": "2024-05-01T08:00:00Z"},
                {"status": "Running", "lastTransitionTime": "2024-05-01T09:00:00Z"},
                {"status": "Completed", "lastTransitionTime": "2024-05-01T09:30:00Z"},
            ]),
        ),
        4 * 1800, codes={"duration-mismatch": 1, "duration-is-end-minus-submit": 1},
    ),
    # ---------------------------------------------------------------- batsim
    "a walltime ends a delay": Trap("batsim", (batsim(walltime=60),), 240.0),
    "a profile that is no delay": Trap(
        "batsim", (batsim(profile="r"),), dropped={"no-duration": 1}
    ),
    # ---------------------------------------------------------------- Slurm and its like
    "two types in one gang": Trap(
        "sacct", (sacct(held="gres/gpu:a=1,gres/gpu:b=1"),), dropped={"mixed-gpu-types": 1}
    ),
    "total and types disagree": Trap(
        "sacct", (sacct(held="gres/gpu=8,gres/gpu:a=2"),), 8 * 3600, codes={"tres-disagree": 1}
    ),
    "GPUs that a slurmctld forgot as it began anew": Trap(
        "sacct",
        (
            sacct(
                asked="billing=1,cpu=1,gres/gpu=4,mem=1M,node=1",
                held="billing=1,cpu=1,mem=512000M,node=1",
            ),
        ),
        4 * 3600,
        codes={"requested-not-allocated": 1},
    ),
    "a step": Trap("sacct", (sacct("7.batch"), sacct()), 8 * 3600, {"step": 1}),
    "the same line twice": Trap("sacct", (sacct(), sacct()), 8 * 3600, {"duplicate": 1}),
    "a heterogeneous job, suspended": Trap(
        "sacct", (sacct("9+0", elapsed="60"), sacct("9+1", elapsed="60")), 16 * 60,
        codes={"heterogeneous": 1, "elapsed-mismatch": 2},
    ),
    "a site that accounts no GPUs": Trap(
        "sacct", (sacct(held="cpu=1", asked="cpu=1"),), dropped={"no-gpu": 1},
        codes={"no-gpu-tracking": 1},
    ),
    "a column is missing": Trap(
        "sacct", ("x",), head=(SACCT.replace("Start", "Begin"),), codes={"missing-columns": 1}
    ),
    "no header at all": Trap("sacct", (sacct(),), head=(), codes={"no-header": 1}),
    "recorded times that are others": Trap(
        "acme",
        ("1,u,1,2,9,SFT,FAILED,2023-04-02 09:00:00Z,2023-04-02 09:10:00Z,2023-04-02 09:20:00Z,"
         "1200,1,2400",),
        2 * 600,
        codes={"duration-mismatch": 1, "duration-is-end-minus-submit": 1, "queue-mismatch": 1,
               "gpu-time-mismatch": 1},
    ),
    "only what completed": Trap(
        "helios", helios(LONG, state="FAILED"), dropped={"not-completed": 1}, head=HELIOS,
        how=Reading(only="completed"),
    ),
    "a window": Trap(
        "helios", helios(LONG, ("10:00:00", "10:00:00", "11:00:00")), 8 * 3600,
        {"outside-window": 1}, {"running-at-window-start": 1}, head=HELIOS,
        how=Reading(window="2020-07-03T09:00:00.."),
    ),
    "shorter than a round": Trap(
        "helios", helios(("08:00:00", "08:00:00", "08:00:59")), 8 * 59, head=HELIOS,
        codes={"shorter-than-round": 1},
    ),
    # ---------------------------------------------------------------- load
    "more than the cluster": Trap(
        "helios", helios(LONG, LONG), 2 * 8 * 12 * 3600, head=HELIOS, cluster=12,
        codes={"over-capacity": 12},
    ),
    "more than the cluster in parts of hours": Trap(
        "helios", helios(*2 * [("08:30:00", "08:30:00", "10:15:00")]), 2 * 8 * 105 * 60,
        head=HELIOS, cluster=12, codes={"over-capacity": 3},
    ),
    "too large for the cluster": Trap(
        "helios", helios(LONG), 8 * 12 * 3600, head=HELIOS, cluster=4,
        codes={"larger-than-cluster": 1, "over-capacity": 12},
    ),
    "a cluster without a queue": Trap(
        "helios", helios(LONG), 8 * 12 * 3600, head=HELIOS, cluster=800,
        codes={"under-loaded": 1},
    ),
    "a log that begins with a pile": Trap(
        "swf",
        (*(swf(job=i, run=3600, wait=0) for i in range(100)), swf(job=101, submit=90000, run=3600)),
        101 * 8 * 3600, codes={"censored-start": 1, "bursts": 100},
    ),
    "a log of processors": Trap(
        "swf", (swf(run=3600),), 8 * 3600.0, codes={"needs-procs-per-gpu": 1}
    ),
    "a log without run times": Trap(
        "pollux", ("a,0,bert,2,32",), None, codes={"needs-run-times": 1}
    ),
    "an array that waits in one row": Trap(
        "sacct",
        (sacct("9_[3-8%2]", start="Unknown", end="Unknown", state="PENDING", held=""),
         sacct("9_1")),
        8 * 3600, {"not-started": 1}, {"pending-array": 1},
    ),
    "an array whose tasks were cut": Trap(
        "sacct",
        (sacct("9_[3,5,...]", start="Unknown", end="Unknown", state="PENDING", held=""), sacct()),
        8 * 3600, {"not-started": 1}, {"array-cut": 1, "pending-array": 1},
    ),
    "an id that comes again": Trap(
        "sacct",
        (sacct(), sacct(submit="2026-05-01T08:00:00", start="2026-05-01T08:00:10",
                        end="2026-05-01T09:00:10")),
        2 * 8 * 3600, codes={"another-job": 1},
    ),
    "times that are 0": Trap(
        "table", ("a,1714550400,0,1714550500,2", "b,1714550400,1714550410,1714554010,2",
                  "c,1714550400,1714550410,-1,2"),
        2 * 3600, {"not-started": 1, "still-running": 1},
        head=("job,submit,start,end,gpus",),
    ),
    "a start that is out of all calendars": Trap(
        "table", ("b,1714550400,4294967295,1714554010,2,3600",), 2 * 3600,
        codes={"unset-times": 1}, head=("job,submit,start,end,gpus,duration",),
    ),
    "nothing but CPUs": Trap(
        "table", ("a,0,0,60,ada,done",), dropped={"no-gpu": 1}, codes={"no-job": 1}
    ),
    "a state of another scheduler": Trap(
        "table", ("a,0,1,600,ada,vanished",), 600.0, codes={"unknown-outcome": 1}
    ),
    "hours and minutes, or minutes and seconds": Trap(
        "table", ("a,0,1,24:00,ada,done",), 1440.0, codes={"two-part-durations": 1}
    ),
    "longer than any replay": Trap(
        "table", ("a,0,1,1e12,ada,done",), 1e12, codes={"too-long": 1}
    ),
    "milliseconds": Trap(
        "table", ("a,1714550400000,1,3600000,ada,done",), 3.6e6, codes={"milliseconds": 1}
    ),
    "hours without a name": Trap(
        "table", ("a,0,1,24,ada,done", "b,0,1,1.5,ada,done"), 25.5, codes={"small-durations": 1 + 1}
    ),
    "run times that are far below end - submit": Trap(
        "table", ("a,0,24000,1,400", "b,0,37000,1,600"), 1000.0, codes={"long-waits": 2},
        head=("job,submit,end,gpus,duration",),
    ),
    "a limit as the run time": Trap(
        "table", ("a,0,1,86400",), 86400.0, codes={"limit-as-duration": 1},
        head=("job,submit,gpus,walltime",),
    ),
    "GPUs per node": Trap(
        "table", ("a,0,8,600,1", "b,0,8,600,4"), 2 * 4800.0, codes={"gpus-per-node": 1},
        head=("job,submit,gpus,duration,nodes",),
    ),
    "fewer GPUs than nodes": Trap(
        "table", ("a,0,2,600,4",), 1200.0, codes={"fewer-gpus-than-nodes": 1},
        head=("job,submit,gpus,duration,nodes",),
    ),
    "generic resources on several nodes": Trap(
        "sacct",
        ("9|COMPLETED|2024-05-01T08:00:00|2024-05-01T08:00:10|2024-05-01T09:00:10|2|gpu:4",),
        4 * 3600, codes={"gres-per-node": 1},
        head=("JobID|State|Submit|Start|End|NNodes|AllocGRES",),
    ),
    "a deadline that is past": Trap(
        "table", ("a,100,1,600,60",), 600.0, codes={"past-deadline": 1},
        head=("job,submit,gpus,duration,deadline",),
    ),
    "a zone in some rows": Trap(
        "table", ("a,2024-05-01 08:00:00,1,600,u,done", "b,2024-05-01T08:00:00Z,1,600,u,done"),
        1200.0, codes={"zones-differ": 1},
    ),
    "a decimal comma": Trap(
        "table", ("a;0;1;600,5",), 600.5, codes={"decimal-comma": 1},
        head=("job;submit;gpus;duration",),
    ),
    "few users": Trap(
        "helios",
        tuple(f"{i},u{min(i, 5)},v,8,1,COMPLETED,{','.join(f'2020-07-03 {t}' for t in LONG)}"
              for i in range(9)),
        9 * 8 * 12 * 3600, head=HELIOS, codes={"one-user": 8},
    ),
}  # fmt: skip


@pytest.mark.parametrize("trap", TRAPS.values(), ids=list(TRAPS))
def test_a_trap(trap: Trap, tmp_path: Path) -> None:
    sample = SAMPLES[trap.format]
    rows = sample.join.join(trap.rows)
    head = sample.head if trap.head is None else trap.head
    tail = sample.tail
    if trap.format == "batsim":
        tail = ('], "profiles": {"p": {"type": "delay", "delay": 100}, "r": {"type": "msg"}}}',)
    for name, text in trap.beside.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = put(tmp_path, trap.format, "\n".join((*head, rows, *tail)) + "\n", sample.name)
    found = lint(path, trap.format, trap.how, cluster_gpus=trap.cluster)
    report = found.report
    assert dict(report.dropped) == trap.dropped
    assert report.gpu_seconds == trap.gpu_s
    assert report.rows == report.jobs + report.dropped.total() + report.folded
    counts = {code: one.count for code, one in report.findings.items()}
    assert counts == counts | trap.codes
    loudest = report.worst
    assert ("no-job" in counts) == (report.jobs == 0 and loudest != "error")
    loud = {code for code, one in CHECKS.items() if one.severity != "note"}
    dropping = {"malformed", "unknown-status", "negative-duration"} & set(trap.dropped)
    # A reason for dropping is a finding of its own; of other errors and warnings there are none.
    processors = trap.format == "swf" and report.jobs > 0 and trap.how.procs_per_gpu is None
    assert ("needs-procs-per-gpu" in counts) == processors
    loud -= {"needs-procs-per-gpu"}
    assert set(counts) & loud <= set(trap.codes) | dropping | {"no-job"}
    text = found.as_text()
    assert text.isascii()
    assert "{" not in text


def test_every_reason_and_every_code_has_a_trap() -> None:
    """What is found beside rows, or in a log of none, test_lint.py has."""
    reasons = {reason for trap in TRAPS.values() for reason in trap.dropped}
    assert set(REASONS) == reasons
    codes = {code for trap in TRAPS.values() for code in trap.codes}
    assert set(CHECKS) - codes == {"capacity-varies", "no-rows", "other-selection"}
