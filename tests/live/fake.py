"""A pretended Slurm in the process: it answers the commands that the controller gives.

Virtual time, jobs that start, end, are requeued and fail as those of 22.05 do where it was tried,
and faults on request: commands that are refused, answers that do not come, jobs that squeue hides,
ends that slurmctld has not heard of yet, of each job or after it was away. Slurm's own scheduler is
order by priority, with backfill around the first job that waits or without.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import geteuid
from pwd import getpwuid
from typing import Any

from morph_opt.live.scheduler import AwayError, Command, RefusedError

EPOCH_S = 1_795_000_000.0
KILL_S = 1.0
AFTER_REQUEUE_S = 121.0
MESSAGE_S = 5.0
UNLISTED: dict[str, dict[str, Any]] = {
    "squeue": {
        "meta": {"Slurm": {"release": "22.05.8"}},
        "errors": [
            {
                "description": "Failed while looking for jobs",
                "error_number": -1,
                "error": "Unspecified error",
                "source": "slurm_load_jobs",
            }
        ],
        "jobs": [],
    },
    "sinfo": {
        "meta": {"Slurm": {"release": "22.05.8"}},
        "errors": [{"error": "Unspecified error", "errno": -1}],
        "nodes": [],
    },
}
"""What 22.05 prints without slurmctld, with exit status 0; 24.11 prints nothing and ends with 1."""


@dataclass(slots=True)
class FakeJob:
    """A job; ``work_s`` are seconds that it runs on the GPUs that it asks for."""

    id: int
    gpus: int
    work_s: float
    submit_s: float
    comment: str = ""
    nodes: int = 0
    user: str = "alice"
    partition: str = "gpu"
    limit_s: float = 86_400.0
    requeue: bool = True
    checkpoint: bool = True
    scaling: float = 1.0
    name: str = "job"
    foreign: bool = False
    asked_gpus: int = 0
    state: str = "PENDING"
    priority: float = 0.0
    reason: str = "Priority"
    mark: str = ""
    begin_s: float = 0.0
    requeued_s: float = 0.0
    held: dict[int, list[int]] = field(default_factory=dict)
    ran_on: list[str] = field(default_factory=list)
    pinned: list[str] = field(default_factory=list)
    start_s: float = 0.0
    first_start_s: float = 0.0
    end_s: float = 0.0
    true_end_s: float = 0.0
    done_s: float = 0.0
    restarts: int = 0
    ran_again: int = 0
    resized: int = 0
    told_s: float = 0.0
    over: bool = False
    dependency: str = ""
    array: int = 0

    @property
    def rate(self) -> float:
        """Work done in a second on the GPUs that it has."""
        return float((self.gpus / self.asked_gpus) ** self.scaling)


class FakeSlurm:
    """See the module; `__call__` is what `morph_opt.live.slurm.Slurm` runs commands by."""

    def __init__(
        self,
        nodes: int = 8,
        gpus: int = 8,
        *,
        backfill: bool = True,
        seed: int = 0,
        refuse: float = 0.0,
        restart_s: float = 0.0,
        lag_s: float = 0.0,
    ) -> None:
        self.size, self.now_s = gpus, EPOCH_S
        self.nodes = {f"n{i + 1}": i for i in range(nodes)}
        self.free = [set(range(gpus)) for _ in range(nodes)]
        self.flags: dict[str, str] = {}
        self.jobs: dict[int, FakeJob] = {}
        self.backfill, self.refuse, self.restart_s = backfill, refuse, restart_s
        self.lag_s = lag_s
        self.draw = random.Random(seed)
        self.boot_s, self.away_until_s = EPOCH_S - 1e6, 0.0
        self.hidden: set[int] = set()
        self.unlisted = ""
        self.skew_s = 0.0
        self.doors: dict[str, int] = {}
        self.touched: list[Command] = []
        self.rights = True
        self._next, self._rank = 1, 4e9
        self._ended: dict[tuple[int, int], float] = {}
        self.commands = 0

    # ------------------------------------------------------------------ time
    def clock(self) -> float:
        """The clock of the machine."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.advance(seconds)

    def away(self, seconds: float) -> None:
        """Kill slurmctld; it is back after so long, and hears of ends a little later."""
        self.away_until_s = self.boot_s = self.now_s + seconds

    def advance(self, seconds: float, step_s: float = 0.5) -> None:
        """Let jobs run, end and start."""
        end_s = self.now_s + seconds
        while self.now_s < end_s - 1e-9:
            self.now_s = min(end_s, self.now_s + step_s)
            self._tick()

    def _tick(self) -> None:
        present = self.now_s >= self.away_until_s
        for job in self.jobs.values():
            if job.state == "RUNNING" and not job.true_end_s:
                left_s = (job.work_s - job.done_s) / job.rate + self._start_up(job)
                if self.now_s >= job.start_s + left_s:
                    job.true_end_s = job.start_s + left_s
            heard = present and self.now_s >= self.boot_s + MESSAGE_S
            heard = heard and self.now_s >= job.true_end_s + self.lag_s
            if job.state == "RUNNING" and job.true_end_s and heard:
                self._finish(job, "COMPLETED", job.true_end_s)
            if job.state == "RUNNING" and self.now_s > job.start_s + job.limit_s + KILL_S:
                self._finish(job, "TIMEOUT", self.now_s)
            if job.state == "COMPLETING" and present and self.now_s >= job.told_s:
                self._free(job)
                job.state, job.reason = "PENDING", "BeginTime"
                job.requeued_s, job.begin_s = self.now_s, self.now_s + AFTER_REQUEUE_S
                job.ran_on = []
        if present:
            self._schedule()

    def _start_up(self, job: FakeJob) -> float:
        return self.restart_s if job.restarts else 0.0

    # ------------------------------------------------------------------ jobs
    def submit(self, gpus: int, work_s: float, comment: str = "", **more: Any) -> FakeJob:
        """A job arrives."""
        self._rank -= 1
        job = FakeJob(
            self._next,
            gpus,
            work_s,
            self.now_s,
            comment,
            asked_gpus=gpus,
            priority=self._rank,
            **more,
        )
        self.jobs[job.id] = job
        self._next += 1
        return job

    def _finish(self, job: FakeJob, state: str, at_s: float) -> None:
        self._free(job)
        job.state, job.end_s, job.reason, job.over = state, at_s, "None", True
        job.done_s = job.work_s if state == "COMPLETED" else job.done_s

    def _free(self, job: FakeJob) -> None:
        for node, gpus in job.held.items():
            self.free[node] |= set(gpus)
            self._ended[job.id, node] = self.now_s
        job.held = {}

    def _start(self, job: FakeJob, parts: dict[int, int]) -> None:
        names = list(self.nodes)
        job.ran_on = [names[node] for node in sorted(parts)]
        for node, count in sorted(parts.items()):
            gpus = sorted(self.free[node])[:count]
            assert len(gpus) == count, "Slurm gave GPUs twice"
            self.free[node] -= set(gpus)
            job.held[node] = gpus
            if self.now_s - self._ended.get((job.id, node), 0.0) < 1.0:
                job.start_s = self.now_s
                return self._finish(job, "FAILED", self.now_s)
        job.ran_again += job.over
        job.state, job.start_s, job.reason, job.true_end_s = "RUNNING", self.now_s, "None", 0.0
        job.first_start_s = job.first_start_s or self.now_s
        return None

    def _schedule(self) -> None:
        """Slurm's own: by priority, then what ends before the first that waits could start."""
        waiting = sorted(
            (
                job
                for job in self.jobs.values()
                if job.state == "PENDING"
                and job.priority > 0
                and job.begin_s <= self.now_s
                and not job.dependency
            ),
            key=lambda job: -job.priority,
        )
        shadow_s, spare = None, 0
        for job in waiting:
            parts = self._fit(job)
            if parts is not None and shadow_s is None:
                self._start(job, parts)
            elif parts is not None and self.backfill:
                ends = self.now_s + job.limit_s <= (shadow_s or 0.0)
                if ends or job.gpus <= spare:
                    spare -= 0 if ends else job.gpus
                    self._start(job, parts)
            elif shadow_s is None and not job.pinned:
                if not self.backfill:
                    return
                shadow_s, spare = self._shadow(job)
            if parts is None:
                job.reason = "Resources"

    def _shadow(self, job: FakeJob) -> tuple[float, int]:
        """When enough GPUs will be free for the first that waits, and how many more then."""
        free = sum(map(len, self.free))
        for other in sorted(
            (one for one in self.jobs.values() if one.state == "RUNNING"),
            key=lambda one: one.start_s + one.limit_s,
        ):
            free += other.gpus
            if free >= job.gpus:
                return other.start_s + other.limit_s, free - job.gpus
        return self.now_s, 0

    def _fit(self, job: FakeJob) -> dict[int, int] | None:
        """Places for a job: on as few nodes as will do, on those that it is pinned to."""
        names = job.pinned or list(self.nodes)
        open_ = [i for name, i in self.nodes.items() if name in names and name not in self.flags]
        if job.nodes:
            each = job.gpus // job.nodes
            fit = [i for i in open_ if len(self.free[i]) >= each][: job.nodes]
            return dict.fromkeys(fit, each) if len(fit) == job.nodes else None
        if job.gpus <= self.size and not (len(job.pinned) > 1):
            tight = [i for i in open_ if len(self.free[i]) >= job.gpus]
            if tight:
                return {min(tight, key=lambda i: len(self.free[i])): job.gpus}
        left, parts = job.gpus, {}
        for i in sorted(open_, key=lambda i: -len(self.free[i])):
            if left and self.free[i]:
                parts[i] = min(left, len(self.free[i]))
                left -= parts[i]
        return parts if not left else None

    # ------------------------------------------------------------------ commands
    def __call__(self, command: Command, limit_s: float) -> str:
        """What a command prints."""
        self.commands += 1
        if self.now_s < self.away_until_s:
            raise AwayError("Unable to contact slurm controller (connect failure)")
        words = list(command)
        if words[0] == self.unlisted:
            return json.dumps(UNLISTED[self.unlisted])
        if words[:3] == ["scontrol", "show", "config"]:
            return self._config()
        if words[:2] == ["squeue", "--json"]:
            rows = [
                self._row(job)
                for job in self.jobs.values()
                if job.id not in self.hidden and not (job.over and job.end_s < self.now_s - 300)
            ]
            return json.dumps({"meta": {}, "errors": [], "jobs": rows})
        if words == ["sinfo", "--json"]:
            return json.dumps({"meta": {}, "errors": [], "nodes": list(self._nodes())})
        if words[:3] == ["scontrol", "show", "nodes"]:
            raise RefusedError("invalid option --json")
        if not self.rights and words[0] == "scontrol":
            raise RefusedError("Access/permission denied for job 1")
        if self.refuse and self.draw.random() < self.refuse and words[0] != "sbatch":
            raise RefusedError("Requested operation is presently disabled")
        self._change(words)
        return f"{self._next - 1}\n" if words[0] == "sbatch" else ""

    def _change(self, words: list[str]) -> None:
        if words[0] == "sbatch":
            name = next(w.partition("=")[2] for w in words if w.startswith("--job-name"))
            job = self.submit(0, 1.0, name=name, user=getpwuid(geteuid()).pw_name)
            job.priority = 0.0
            return
        number = next((w for w in reversed(words) if w.removeprefix("JobId=").isdigit()), "0")
        job = self.jobs.get(int(number.removeprefix("JobId=")))
        if job is None:
            raise RefusedError("Invalid job id specified")
        if job.foreign:
            self.touched.append(tuple(words))
        if words[0] == "scancel":
            self._finish(job, "CANCELLED", self.now_s)
        elif words[1] == "requeue":
            self._requeue(job, "Incomplete" in words)
        elif words[1] == "release":
            job.priority = job.priority or self._rank
        elif words[1] == "update":
            self._update(job, dict(w.split("=", 1) for w in words[3:]))

    def _requeue(self, job: FakeJob, incomplete: bool) -> None:
        if job.state != "RUNNING" and (incomplete or not job.over):
            raise RefusedError("Requested operation is presently disabled")
        if not job.requeue:
            raise RefusedError("Requested operation is presently disabled")
        if job.checkpoint:
            ran_s = max(0.0, self.now_s - job.start_s - self._start_up(job))
            job.done_s = min(job.work_s, job.done_s + ran_s * job.rate)
        if job.true_end_s:
            job.over, job.done_s = True, 0.0  # it had ended; slurmctld did not know yet
        job.state, job.told_s, job.restarts = "COMPLETING", self.now_s + KILL_S, job.restarts + 1
        job.true_end_s = 0.0

    def _update(self, job: FakeJob, given: dict[str, str]) -> None:
        if job.over:
            raise RefusedError("Job/step already completing or completed")
        kept = given.get("ReqNodeList", "").split(",")
        if job.state == "RUNNING" and set(kept) <= set(job.ran_on):
            job.resized += 1  # and refused all the same
        if job.state == "RUNNING" and set(given) - {"AdminComment"}:
            raise RefusedError("Job is no longer pending execution")
        for key, value in given.items():
            if key == "AdminComment":
                job.mark = value
            elif key == "ReqNodeList":
                job.pinned = value.split(",") if value else []
            elif key == "Priority":
                job.priority = float(value)
            elif key == "StartTime":
                job.begin_s = self.now_s if value == "now" else _instant(value)
                job.reason = "None" if value == "now" else "BeginTime"
            elif key == "NumNodes":
                job.nodes = int(value.partition("-")[0])
            elif key in ("TresPerNode", "TresPerJob"):
                count = int(value.rpartition(":")[2])
                job.gpus = count * job.nodes if key == "TresPerNode" else count
                job.nodes = job.nodes if key == "TresPerNode" else 0
            elif key not in ("NumTasks", "NumCPUs"):
                raise RefusedError(f"Update of this parameter is not supported: {key}")

    def _config(self) -> str:
        now = datetime.fromtimestamp(self.now_s + self.skew_s, UTC)
        boot = datetime.fromtimestamp(self.boot_s, UTC)
        return (
            f"Configuration data as of {now:%Y-%m-%dT%H:%M:%S}\n"
            f"BOOT_TIME               = {boot:%Y-%m-%dT%H:%M:%S}\n"
            f"ClusterName             = fake\nMessageTimeout          = {MESSAGE_S:.0f} sec\n"
        )

    def _row(self, job: FakeJob) -> dict[str, Any]:
        detail = [f"gpu:a800:{len(g)}(IDX:{','.join(map(str, g))})" for g in job.held.values()]
        runs = job.state == "RUNNING"
        by_node = f"gres:gpu:{job.gpus // job.nodes}" if job.nodes else ""
        return {
            "job_id": job.id,
            "name": job.name,
            "job_state": job.state,
            "user_name": job.user,
            "state_reason": job.reason if job.priority else "JobHeldUser",
            "account": job.user,
            "partition": job.partition,
            "comment": job.comment,
            "admin_comment": job.mark,
            "submit_time": int(job.requeued_s or job.submit_s),
            "eligible_time": int(job.begin_s),
            "start_time": int(job.start_s),
            "end_time": int(job.end_s),
            "priority": job.priority,
            "time_limit": int(job.limit_s // 60),
            "node_count": max(1, job.nodes),
            "tasks": 1,
            "tres_req_str": f"cpu=1,node={max(1, job.nodes)}",
            "requeue": job.requeue,
            "tres_alloc_str": "",
            "tres_per_job": "" if job.nodes or not job.gpus else f"gres:gpu:{job.gpus}",
            "tres_per_node": by_node,
            "tres_per_task": "",
            "tres_per_socket": "",
            "gres_detail": detail if runs else [],
            "nodes": ",".join(job.ran_on),
            "required_nodes": ",".join(job.pinned),
            "restart_cnt": job.restarts,
            "dependency": job.dependency,
            "array_job_id": job.array,
            "array_task_id": 0 if job.array else None,
            "array_task_string": "",
        }

    def _nodes(self) -> Iterator[dict[str, Any]]:
        for name, i in self.nodes.items():
            used = sorted(set(range(self.size)) - self.free[i])
            listed = ",".join(map(str, used)) if used else "N/A"
            flag = self.flags.get(name, "")
            yield {
                "name": name,
                "gres": f"gpu:a800:{self.size}",
                "partitions": ["gpu", "other"],
                "gres_used": f"gpu:a800:{len(used)}(IDX:{listed})",
                "state": "down" if flag == "NOT_RESPONDING" else "mixed" if used else "idle",
                "state_flags": [flag] if flag else [],
                "cpus": 64,
                "alloc_cpus": len(used),
                "features": "",
                "active_features": "",
                "port": self.doors.get(name),
                "address": "127.0.0.1" if name in self.doors else "",
            }


def _instant(written: str) -> float:
    return datetime.fromisoformat(written).replace(tzinfo=UTC).timestamp()
