"""Client of Slurm: its commands, each with a time limit, and the lease."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from morph_opt.core.documents import Fields, parse_json
from morph_opt.core.domain import InputError
from morph_opt.live.picture import (
    LEASE_NAME,
    PARKED,
    RANKED,
    STARTED,
    STOPPED,
    Picture,
    clock_of,
    is_lease_mark,
    read_picture,
)
from morph_opt.live.scheduler import (
    AwayError,
    Command,
    Intent,
    Park,
    Prioritise,
    RefusedError,
    Shape,
    Start,
    Stop,
    require_free,
)
from morph_opt.live.settings import Settings
from morph_opt.round.live.slurm_fields import number, words

Run = Callable[[Command, float], str]
"""Function that returns the output of a command within a limit in seconds."""

_AWAY = ("unable to contact", "connection refused", "connect failure", "socket timed out",
         "zero bytes were transmitted", "unexpected message", "communication connection failure",
         "unable to establish", "transport endpoint", "timed out", "missing socket",
         "protocol authentication error")  # fmt: skip
_JOBS = ("squeue", "--json", "--states=all")
"""Arguments that list ended jobs too, which releases after 22.05 omit by default."""
_LONGEST = 4_000_000
"""Largest number of characters of a job's string, such as a comment or command line."""
_NODES, _NODES_2205 = ("scontrol", "show", "nodes", "--json"), ("sinfo", "--json")
_RIGHTS = ("permission denied", "access/permission", "not permitted")


def run_slurm(command: Command, limit_s: float) -> str:
    """Run a command of Slurm's with the clock of UTC.

    Raises
    ------
    AwayError, RefusedError
        If slurmctld does not answer within the limit, or refuses.
    InputError
        If there is no such command on this machine.
    """
    env = {**os.environ, "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(
            command,
            env=env,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise AwayError(f"{command[0]}: no answer within {limit_s:g} s") from None
    except FileNotFoundError:
        rule = "is not on this machine: run on a node with Slurm's client commands"
        raise InputError(rule, field=command[0]) from None
    if done.returncode == 0:
        return done.stdout
    answer = " ".join((done.stderr or done.stdout).split())[:300]
    if any(word in answer.lower() for word in _AWAY):
        raise AwayError(answer)
    raise RefusedError(answer or f"exit status {done.returncode}")


def listed(text: str, command: str) -> Any:
    """Parse the list that a command prints.

    Raises
    ------
    AwayError
        If it lists errors: without slurmctld 22.05 prints such a document with no job, or no node,
        in it, and ends as if all were well.
    InputError
        If it is no document.
    """
    found = parse_json(text, command, characters=_LONGEST)
    errors = found.get("errors") if isinstance(found, dict) else None
    if errors:
        first = errors[0] if isinstance(errors, list) else errors
        said = first.get("description") or first.get("error") if isinstance(first, dict) else first
        raise AwayError(f"{command}: {str(said)[:200]}")
    return found


@dataclass(frozen=True, slots=True)
class Answers:
    """Texts of ``scontrol show config``, of the jobs and of the nodes."""

    config: str
    jobs: str
    nodes: str

    @property
    def time_s(self) -> float:
        """Time of slurmctld's answer."""
        return clock_of(self.config)

    @property
    def seen(self) -> object:
        """Fingerprint of jobs and nodes."""
        return hash((self.jobs, self.nodes))


class Slurm:
    """Client of a Slurm cluster.

    Parameters
    ----------
    settings
        Limits of time, partitions.
    run
        Runs a command; tests put a pretended Slurm here.
    clock, sleep, user
        Clock and sleep of this machine, and user of this process; tests have their own.
    """

    server = "slurmctld"

    def __init__(
        self,
        settings: Settings,
        run: Run = run_slurm,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        user: str | None = None,
    ) -> None:
        self._settings = settings
        self._run = run
        self._nodes_by_scontrol, self._owner = True, ""
        self._user = _own_user() if user is None else user
        self.clock = clock
        self.sleep = sleep

    def ask(self) -> Answers:
        """Ask Slurm for its configuration, jobs and nodes.

        Raises
        ------
        AwayError
            If slurmctld does not answer.
        """
        limit_s = self._settings.timeout_s
        try:
            config = self._run(("scontrol", "show", "config"), limit_s)
            jobs = self._run(_JOBS, limit_s)
            if self._nodes_by_scontrol:
                try:
                    return Answers(config, jobs, self._run(_NODES, limit_s))
                except RefusedError:  # 22.05 has no such option
                    self._nodes_by_scontrol = False
            return Answers(config, jobs, self._run(_NODES_2205, limit_s))
        except RefusedError as error:
            raise AwayError(str(error)) from error

    def observe(self, submitted_s: Mapping[str, float], asked: Answers | None = None) -> Picture:
        """Return the picture; see `morph_opt.live.picture.read_picture`.

        Raises
        ------
        AwayError
            If slurmctld does not answer.
        InputError
            If its answers make no sense.
        """
        answer = asked or self.ask()
        jobs, nodes = listed(answer.jobs, "squeue --json"), listed(answer.nodes, "sinfo --json")
        return read_picture(answer.config, jobs, nodes, submitted_s, self._settings)

    def commands(self, intent: Intent, picture: Picture) -> tuple[Command, ...]:
        """Return the commands of an intent."""
        return words_of(intent, picture.time_s)

    def do(self, command: Command) -> None:
        """Run a command that changes something.

        Raises
        ------
        AwayError, RefusedError
            See `run_slurm`.
        """
        self._run(command, self._settings.timeout_s)

    def against(self, intent: Intent, picture: Picture) -> str:
        """Return why a job must not be stopped (a slurmd is unreachable); "" if it may.

        Slurm finds out in minutes (a third of SlurmdTimeout) that a slurmd is gone. A job there
        may have ended unseen, and a stop would not reach it.
        """
        if not self._settings.probe or not isinstance(intent, Stop):
            return ""
        for name in picture.jobs[intent.job].nodes:
            door = picture.doors.get(name)
            try:
                if door is not None:
                    socket.create_connection(door, timeout=1.0).close()
            except OSError:
                return f"slurmd of {name} takes no connection"
        return ""

    def take_lease(self, owner: str) -> None:
        """Take the lease of the cluster's one controller, for `Settings.lease_s`.

        Slurm cannot compare and set in one step: it is of the controller that reads its own
        name after a pause longer than any other's way from reading to writing.

        Raises
        ------
        InputError
            If another has it, or there is no right to.
        AwayError
            If slurmctld does not answer.
        """
        self._owner, made = owner, ""
        try:
            if not self._leases():
                made = self._make_lease_job()
            # The oldest counts, should two have made one; a job may take a moment to be listed.
            job = next((job for job, _ in self._leases()), made)
            for _ in range(3):
                began_s = self.clock()
                self._require_free(owner, job)
                self._write_lease(job, owner)
                took_s = self.clock() - began_s
                self.sleep(max(1.0, 2.0 * took_s))
                if took_s < 5.0:
                    break
            self._require_free(owner, job)
        except RefusedError as error:
            if made:  # whoever may submit a job need not have the right to write on it
                self.do(("scancel", made))
            if any(word in str(error).lower() for word in _RIGHTS):
                rule = f"{error}: run as root, as SlurmUser, or as an operator of Slurm"
                raise InputError(rule, field="lease") from None
            raise InputError(str(error), field="lease") from None

    def renew_lease(self, owner: str, picture: Picture) -> bool:
        """Renew the lease; return False if it is lost, in which case nothing may be done.

        Raises
        ------
        AwayError, RefusedError
            If Slurm does not take it.
        """
        own = [(job, mark) for job, mark in picture.leases if _holder(mark)[0] == owner]
        if not own:
            return False
        job, mark = own[0]
        until_s = _holder(mark)[1]
        if until_s - self.clock() < self._settings.lease_s / 2.0:
            self._write_lease(job, owner)
        return until_s > self.clock()

    def give_lease(self) -> None:
        """Release the lease."""
        for job, mark in self._leases():
            if _holder(mark)[0] == self._owner:
                self.do(("scancel", job))

    def _make_lease_job(self) -> str:
        """Submit the held job that carries the lease and return its number."""
        where = [f"--partition={name}" for name in self._settings.partitions[:1]]
        about = "--comment=never runs: held by the controller of morph-opt"
        how = ("--hold", f"--job-name={LEASE_NAME}", "--output=/dev/null", "--no-requeue", about)
        command = ("sbatch", "--parsable", *how, *where, "--wrap=true")
        said = self._run(command, self._settings.timeout_s)
        return said.strip().partition(";")[0]

    def _leases(self) -> list[tuple[str, str]]:
        """Return the jobs that are leases, oldest first, with their marks.

        A lease waits, held, and is of this controller's user, or has a mark of a lease, which
        operators alone can write: jobs of users that are only named like it are none.
        """
        answer = listed(self._run(_JOBS, self._settings.timeout_s), "squeue --json")
        rows = Fields(answer, "", "squeue --json", None).objects("jobs", None)
        found = [
            (row.whole("job_id"), row.word("admin_comment")) for row in rows if self._is_lease(row)
        ]
        return [(str(job), mark) for job, mark in sorted(found)]

    def _is_lease(self, row: Fields) -> bool:
        """Return whether a job is a lease."""
        held = "PENDING" in words(row, "job_state") and number(row, "priority") == 0.0
        if row.word("name") != LEASE_NAME or not held:
            return False
        return is_lease_mark(row.word("admin_comment")) or row.word("user_name") == self._user

    def _require_free(self, owner: str, job: str) -> None:
        require_free(_holder(dict(self._leases()).get(job, "")), owner, self.clock())

    def _write_lease(self, job: str, owner: str) -> None:
        until_s = self.clock() + self._settings.lease_s
        mark = f"AdminComment=lease:{owner}@{until_s:.0f}"
        self.do(("scontrol", "update", f"JobId={job}", mark))


def _own_user() -> str:
    """Return the name of the user that this process runs as."""
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _holder(mark: str) -> tuple[str, float]:
    """Return owner and expiry of the mark on a lease."""
    word, _, at = mark.removeprefix("lease:").rpartition("@")
    return (word, float(at)) if mark.startswith("lease:") and at.isdigit() else ("", 0.0)


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
