"""Invented logs: one small good one per format, and how a test reads text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from morph_opt.inputs.traces.logs.reading.report import Report
from morph_opt.inputs.traces.logs.reading.row import LogRow, Reading
from morph_opt.inputs.traces.logs.reading.scan import Scan
from morph_opt.inputs.traces.logs.registry import log_format

SACCT = (
    "JobIDRaw|User|Account|Partition|Submit|Start|End|ElapsedRaw|State|ReqTRES|AllocTRES|JobName"
)


def sacct(
    job: str = "7",
    submit: str = "08:00:00",
    start: str = "08:00:10",
    end: str = "09:00:10",
    elapsed: str = "3600",
    state: str = "COMPLETED",
    asked: str = "gres/gpu=8",
    held: str = "cpu=64,gres/gpu=8",
    name: str = "run",
) -> str:
    """A line; times are of one day unless they name another."""
    times = (
        t if "T" in t or not t[:1].isdigit() else f"2024-05-01T{t}" for t in (submit, start, end)
    )
    return "|".join((job, "ada", "ml", "gpu", *times, elapsed, state, asked, held, name))


PLAIN = Reading()


def workload(
    name: str,
    submit: str = "2024-05-01T08:00:00Z",
    *,
    count: int = 4,
    reason: str = "Succeeded",
    requests: object = None,
    status: object = None,
) -> str:
    """A workload of so many pods with two GPUs each, admitted for an hour."""
    pod = {"containers": [{"resources": {"requests": requests or {"nvidia.com/gpu": "2"}}}]}
    conditions = [
        {"type": kind, "status": "True", "reason": why, "lastTransitionTime": f"2024-05-01T{at}Z"}
        for kind, why, at in (
            ("Admitted", "Admitted", "08:10:00"),
            ("Finished", reason, "09:10:00"),
        )
    ]
    return json.dumps(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": submit},
            "spec": {
                "queueName": "q",
                "podSets": [{"name": "main", "count": count, "template": {"spec": pod}}],
            },
            "status": {"conditions": conditions} if status is None else status,
        }
    )


def vcjob(
    name: str,
    phase: str = "Completed",
    duration: str = "1h2m3s",
    *,
    replicas: int = 4,
    conditions: object = (),
) -> str:
    """A Volcano job of pods with one GPU each."""
    pod = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    state = {"phase": phase, "lastTransitionTime": "2024-05-01T09:30:00Z"}
    return json.dumps(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "creationTimestamp": "2024-05-01T08:00:00Z"},
            "spec": {
                "queue": "q",
                "minAvailable": 1,
                "tasks": [{"replicas": replicas, "template": {"spec": pod}}],
            },
            "status": {"state": state, "runningDuration": duration, "conditions": conditions},
        }
    )


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
    beside: Mapping[str, str] = field(default_factory=dict)

    def text(self, lines: Iterable[str] | None = None) -> str:
        """The file's text, with other rows."""
        rows = self.join.join(self.lines if lines is None else lines)
        return "\n".join((*self.head, *([rows] if rows else []), *self.tail)) + "\n"


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
    "philly": Sample(
        ("[",),
        (
            '{"status": "Pass", "vc": "aa11", "jobid": "app_1", "user": "c3",'
            ' "submitted_time": "2017-10-02 10:00:00", "attempts": [{"start_time":'
            ' "2017-10-02 10:02:00", "end_time": "2017-10-02 10:12:00", "detail":'
            ' [{"ip": "m9", "gpus": ["gpu0", "gpu1"]}]}]}',
            '{"status": "Killed", "vc": "bb22", "jobid": "app_2", "user": "c4",'
            ' "submitted_time": "2017-10-02 10:05:00", "attempts": [{"start_time":'
            ' "2017-10-02 10:06:00", "end_time": "2017-10-02 10:07:30", "detail":'
            ' [{"ip": "m1", "gpus": ["gpu0"]}, {"ip": "m2", "gpus": ["gpu3"]}]}]}',
        ),
        2 * 600 + 2 * 90,
        '{"status": "Pass", "jobid": "app_3", "submitted_time": "soon", "attempts": []}',
        ("]",),
        ",\n",
        "log.json",
    ),
    "philly-table": Sample(
        ("timestamp,duration,num_gpus,gpu_time,cluster",),
        (
            "2017-10-09 07:00:00,660.0,1,660.0,11cb48",
            "2017-10-09 07:10:00,90.0,4,360.0,6214e9",
        ),
        660 + 4 * 90,
        "2017-10-09 07:10:00,long,4,360.0,6214e9",
    ),
    "pai": Sample(
        (),
        (
            "j9,i9,u3,Terminated,100.0,900.0",
            "j8,i8,u4,Failed,150.0,1000.0",
        ),
        # From the earliest task start to the end of the job, on all instances of all tasks.
        (4 + 1) * (900 - 110) + 2 * (1000 - 400),
        "j7,i7,u4,Failed,x,1000.0",
        name="pai/pai_job_table.csv",
        beside={
            "pai/pai_task_table.csv": "j9,worker,4.0,Terminated,130.0,900.0,600.0,29.3,100.0,V100\n"
            "j9,chief,1.0,Terminated,120.0,890.0,600.0,29.3,100.0,V100\n"
            "j9,ps,2.0,Terminated,110.0,890.0,600.0,29.3,,\n"
            "j8,worker,1.0,Failed,400.0,1000.0,600.0,29.3,200.0,T4\n"
            "j7,worker,1.0,Failed,400.0,1000.0,600.0,29.3,200.0,T4\n"
        },
    ),
    "openb": Sample(
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
            "deletion_time,scheduled_time",
        ),
        (
            "pod-7,8000,30720,1,1000,V100M16|V100M32,LS,Succeeded,40,940,52",
            "pod-8,64000,30720,8,1000,,BE,Running,50,250,60",
        ),
        888 + 8 * 190,
        "pod-9,8000,30720,one,1000,,LS,Succeeded,40,940,52",
    ),
    "spot": Sample(
        (
            "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,"
            "duration,job_type",
        ),
        ("12,4,A10,16,1,8,3600,900,Spot", "13,5,A100,64,8,2,3700,120,HP"),
        8 * 900 + 16 * 120,
        "14,5,A100,64,8,2,-3700,120,HP",
    ),
    "pollux": Sample(
        ("name,time,application,num_replicas,batch_size",),
        ("bert-3,811.6,bert,12,384", "ncf-4,900,ncf,1,32768"),
        None,
        "ncf-5,900,ncf,one,32768",
    ),
    "easyscale": Sample(
        (
            "name,time,application,max_parallelism,batch_size,epochs,"
            "enable_heterogeneous_deterministic,preferred_gpu,",
        ),
        ("bert-0,60,bert,8,16,4,1,v100,0.5", "bert-0,75,bert,4,16,4,1,v100"),
        None,
        "bert-1,60,bert,8,0,4,1,v100,0.5",
    ),
    "swf": Sample(
        ("; Version: 2.2", "; MaxNodes: 240"),
        (
            "7 40 12 900 16 -1 -1 16 3600 -1 1 3 1 -1 1 1 -1 -1",
            "8 41.5 0 90.25 -1 -1 -1 4 -1 -1 0 4 1 -1 -1 1 -1 -1",
        ),
        16 * 900 + 4 * 90.25,
        "9 42 0 90 4.5 -1 -1 4 -1 -1 0 4 1 -1 1 1 -1 -1",
        name="log.swf",
    ),
    "sacct": Sample(
        (SACCT,),
        (
            sacct(),
            sacct(
                "8",
                "08:30:00",
                "08:45:00",
                "08:46:00",
                "60",
                "CANCELLED by 1001",
                "gres/gpu=2",
                "gres/gpu=2",
            ),
        ),
        8 * 3600 + 2 * 60,
        sacct("9", held="gres/gpu=many"),
    ),
    "kueue": Sample(
        ('{"apiVersion": "v1", "kind": "List", "items": [',),
        (workload("a"), workload("b", "2024-05-01T08:05:00Z", count=2, reason="Failed")),
        4 * 2 * 3600 + 2 * 2 * 3600,
        '{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "c"}}',
        ('], "metadata": {}}',),
        ",\n",
        "workloads.json",
    ),
    "volcano": Sample(
        ('{"kind": "List", "items": [',),
        (vcjob("a"), vcjob("b", "Failed", "1m30.5s", replicas=1)),
        4 * 3723 + 90.5,
        vcjob("c", duration="soon"),
        ("]}",),
        ",\n",
        "jobs.json",
    ),
    "batsim": Sample(
        ('{"nb_res": 16, "jobs": [',),
        (
            '{"id": 3, "subtime": 12.5, "res": 8, "profile": "p", "walltime": 600}',
            '{"id": "w0!4", "subtime": 13, "res": 2, "profile": "q"}',
        ),
        8 * 300 + 2 * 100.5,
        '{"id": 5, "subtime": 13, "res": 2, "profile": "none"}',
        (
            '], "profiles": {"p": {"type": "DelayProfile", "delay": 300},'
            ' "q": {"type": "delay", "delay": 100.5}}}',
        ),
        ",\n",
        "workload.json",
    ),
    "table": Sample(
        ("job,submit,gpus,duration,user,status",),
        ("a,0,8,3600,ada,done", "b,60,2,1200,bob,failed", "c,60,1,120.5,bob,"),
        8 * 3600 + 2 * 1200 + 120.5,
        "d,later,1,60,bob,done",
    ),
}


def put(tmp_path: Path, format_name: str, text: str, name: str) -> Path:
    """Write a log with what belongs beside it, where that is not there."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8", newline="")
    for other, content in SAMPLES[format_name].beside.items():
        if not (tmp_path / other).exists():
            (tmp_path / other).write_text(content, encoding="utf-8")
    return path


def read(
    tmp_path: Path,
    format_name: str,
    text: str,
    how: Reading | None = None,
    *,
    strict: bool = False,
    name: str = "log.txt",
) -> tuple[list[LogRow], Report]:
    """Jobs and report of a text."""
    path = put(tmp_path, format_name, text, name)
    scan = Scan(path, log_format(format_name), how, strict=strict)
    return list(scan.jobs()), scan.report


def read_sacct(
    tmp_path: Path, *lines: str, header: str = SACCT, how: Reading | None = None
) -> tuple[list[LogRow], Report]:
    """Jobs and report of these lines below a header."""
    return read(tmp_path, "sacct", "\n".join((header, *lines)) + "\n", how)
