"""A real Slurm in a scratch folder: slurmctld, eight slurmd with eight pretended GPUs each, munge.

Everything listens on loopback, every wait has an end, and everything that was started is ended.
Nothing is installed: `missing` names what is not there and the command that brings it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmarks.checks.live import accounting
from benchmarks.checks.live.releases import ROOT, plugins, which, write_commands

NODES, GPUS, NAME = 8, 8, "fake"
PACKAGES = "slurm-wlm slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
INSTALL = "apt-get install -y --no-install-recommends"
_WAIT_S = 60.0
_OTHERS = ("munged", "mariadbd")
"""Daemons that are not Slurm's: their clock is the machine's."""


def missing(*, slurmdbd: bool = False) -> str:
    """What keeps a real Slurm from being brought up, with what to do about it; "" for nothing."""
    wanted, packages = ["slurmctld", "slurmd", "scontrol", "squeue", "sbatch", "munged"], PACKAGES
    if slurmdbd:
        wanted, packages = [*wanted, *accounting.NEEDED], f"{packages} {accounting.PACKAGES}"
    gone = [name for name in wanted if which(name) is None]
    if gone:
        where = f" (those of Slurm in {os.environ[ROOT]})" if os.environ.get(ROOT) else ""
        return f"no {', '.join(gone)}: {INSTALL} {packages}{where}"
    return "" if os.geteuid() == 0 else "slurmctld, slurmd and munged are started as root only"


def until(what: str, holds: Callable[[], bool], limit_s: float = _WAIT_S) -> None:
    """Wait for something; what never comes is an error and no hang."""
    end = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {limit_s:g} s")
        time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class FakeClock:
    """Clock of Slurm's processes that runs faster than the machine's, by libfaketime.

    Parameters
    ----------
    path
        The library.
    speed
        Seconds of Slurm in one of the machine.
    began_s
        Instant at which both clocks agree.
    """

    path: Path
    speed: int
    began_s: float
    NAMED: ClassVar[str] = "LIVE_TEST_FAKETIME"
    WANTED: ClassVar[str] = (
        f"no libfaketime: {INSTALL} libfaketime, or name its libfaketimeMT.so.1 by {NAMED}"
    )

    @classmethod
    def library(cls) -> Path | None:
        """Where libfaketime is; None if it is not installed."""
        named = os.environ.get(cls.NAMED)
        places = [Path(named)] if named else Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
        return next((place for place in places if place.exists()), None)

    def now_s(self) -> float:
        """Time of Slurm's clock."""
        return self.began_s + self.speed * (time.time() - self.began_s)

    def environment(self) -> dict[str, str]:
        """Variables of a process that begins now: each would count from its own begin."""
        ahead_s = (self.speed - 1) * (time.time() - self.began_s)
        return {"LD_PRELOAD": str(self.path), "FAKETIME": f"+{ahead_s:.3f} x{self.speed}"}


class RealSlurm:
    """A cluster of its own; use `cluster`.

    Parameters
    ----------
    folder
        Scratch folder.
    backfill
        Whether slurmctld plans ahead (``sched/backfill``) or starts by order alone.
    slurmdbd
        Whether jobs are accounted for, by a slurmdbd with a MariaDB of its own.
    settings
        More lines of slurm.conf.
    clock
        Clock of Slurm's processes; None for that of the machine.
    """

    def __init__(
        self,
        folder: Path,
        *,
        backfill: bool = True,
        slurmdbd: bool = False,
        settings: Sequence[str] = (),
        clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.settings = (*settings, f"SchedulerType=sched/{'backfill' if backfill else 'builtin'}")
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = _free_ports(NODES + 3)
        if slurmdbd:
            self.settings += accounting.settings(folder, self.ports[1])
        self.slurmdbd = slurmdbd
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC"}
        write_commands(folder / "bin")
        self.env["PATH"] = f"{folder / 'bin'}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        self.release = self.run("slurmctld", "-V").split()[-1]
        self._new = int(self.release.partition(".")[0]) >= 23

    def run(self, *words: str, timeout: float = _WAIT_S, check: bool = True) -> str:
        """What a client command prints."""
        found = shutil.which(words[0], path=self.env["PATH"])
        done = subprocess.run(
            [found or words[0], *words[1:]],
            env=self._clocked(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def start(self) -> None:
        """Write the configuration and bring everything up."""
        self._configure()
        self._munge()
        if self.slurmdbd:
            self._account()
        self.start_controller()
        for i in range(NODES):
            self.start_node(i)
        try:
            until("slurmctld", self.controller_up)
            until("slurmd", lambda: self._idle() == NODES)
        except TimeoutError as late:
            said = [line for file in ("slurmctld.log", "n1.log") for line in self._tail(file)]
            raise TimeoutError("\n  ".join([f"{late}; the daemons' last words:", *said])) from None

    def _tail(self, name: str, lines: int = 5) -> list[str]:
        file = self.folder / name
        return file.read_text(errors="replace").splitlines()[-lines:] if file.exists() else []

    def _idle(self) -> int:
        said = self.run("sinfo", "-h", "-N", "-p", "gpu", "-o", "%t", check=False)
        return said.split().count("idle")

    def _account(self) -> None:
        port, storage_port = self.ports[1], self.ports[2]
        password = accounting.configure(self.folder, port, storage_port)
        self._spawn("mariadbd", *accounting.database(self.folder, storage_port, password))
        until("mariadbd", lambda: _listens(storage_port))
        self.start_accounting()
        until("slurmdbd", lambda: _listens(port))
        cluster = ("sacctmgr", "-i", "add", "cluster", NAME)
        until("the cluster in slurmdbd", lambda: NAME in self.run(*cluster, check=False))

    def start_accounting(self) -> None:
        """Begin slurmdbd, which may have been killed."""
        self._spawn("slurmdbd", "slurmdbd", "-D")

    def stop_accounting(self) -> None:
        """Kill slurmdbd; slurmctld keeps what it has to say to it."""
        self._end("slurmdbd", signal.SIGKILL)

    def _ping(self) -> str:
        return self.run("scontrol", "ping", check=False)

    def start_controller(self) -> None:
        """Begin slurmctld, which may have been killed."""
        self._spawn("slurmctld", "slurmctld", "-D", "-f", self.env["SLURM_CONF"])

    def controller_up(self) -> bool:
        """Whether slurmctld answers; one that has ended by itself begins again, as under systemd.

        It does so where it was killed before it had kept what slurmdbd told it, and slurmdbd is
        away.
        """
        begun = self._started.get("slurmctld")
        if begun is not None and begun.poll() is not None:
            time.sleep(1.0)
            self.start_controller()
        return "UP" in self._ping()

    def stop_controller(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End slurmctld; the cluster's jobs run on."""
        self._end("slurmctld", how)

    def start_node(self, i: int) -> None:
        """Begin the slurmd of a node."""
        conf = self.env["SLURM_CONF"]
        # slurmstepd is where slurmd was built to find it, unless it is told otherwise.
        step = self.folder / "bin/slurmstepd"
        where = ("-d", str(step)) if step.exists() else ()
        self._spawn(f"n{i + 1}", "slurmd", "-D", "-N", f"n{i + 1}", "-f", conf, *where)

    def stop_node(self, i: int) -> None:
        """Kill the slurmd of a node."""
        self._end(f"n{i + 1}", signal.SIGKILL)

    def stop(self) -> None:
        """End what was started, jobs first."""
        with suppress(Exception):
            self.run("scancel", "-f", "--state=RUNNING", timeout=10.0, check=False)
        with suppress(Exception):
            self.run("scancel", "-f", "--state=PENDING", timeout=10.0, check=False)
            time.sleep(1.0)
        for name in list(self._started):
            self._end(name, signal.SIGTERM)
        for file in self.folder.glob("job-*.pid"):
            with suppress(OSError, ValueError):
                os.killpg(int(file.read_text()), signal.SIGKILL)

    def _clocked(self) -> dict[str, str]:
        return self.env if self.clock is None else self.env | self.clock.environment()

    def _spawn(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as out:
            found = shutil.which(words[0], path=self.env["PATH"])
            self._started[name] = subprocess.Popen(
                [found or words[0], *words[1:]],
                env=self.env if name in _OTHERS else self._clocked(),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._started.pop(name, None)
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(15.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15.0)

    def _munge(self) -> None:
        # One of our own: the machine's may be down and its socket still there.
        place = self.folder / "munge"
        place.mkdir(mode=0o711)
        key = place / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        munged = which("munged") or "munged"
        files = ("key", "log", "pid", "seed")
        options = [f"--{name}-file={place / name}" for name in files]
        socket_path = place / "socket"
        where = f"--socket={socket_path}"
        self._spawn("munged", munged, "--foreground", "--force", where, *options)
        until("munged", socket_path.exists)

    def _configure(self) -> None:
        folder, gpus = self.folder, []
        for name in ("state", "spool", "gpus", "jobs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(GPUS):
            path = folder / "gpus" / f"gpu{i}"
            if not path.exists():
                # 22.05 takes any file for a GPU, later releases devices alone.
                os.mknod(path, 0o020666, os.makedev(1, 3)) if self._new else path.touch()
            gpus.append(path)
        (folder / "gres.conf").write_text(
            f"NodeName=n[1-{NODES}] Name=gpu Type=a800 File={folder}/gpus/gpu[0-{GPUS - 1}]\n"
        )
        if self._new:
            (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        nodes = [
            f"NodeName=n{i + 1} NodeHostname=localhost NodeAddr=127.0.0.1 "
            f"Port={self.ports[3 + i]} CPUs=64 RealMemory=512000 Gres=gpu:a800:{GPUS}"
            for i in range(NODES)
        ]
        text = [
            f"ClusterName={NAME}", "SlurmctldHost=localhost(127.0.0.1)", "SlurmUser=root",
            f"SlurmctldPort={self.ports[0]}", "AuthType=auth/munge",
            f"AuthInfo=socket={folder}/munge/socket",
            f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool/%n",
            f"SlurmctldPidFile={folder}/ctld.pid", f"SlurmdPidFile={folder}/%n.pid",
            f"SlurmctldLogFile={folder}/slurmctld.log", f"SlurmdLogFile={folder}/%n.log",
            "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny", "GresTypes=gpu",
            "SlurmdParameters=config_overrides", "ProctrackType=proctrack/pgid",
            "TaskPlugin=task/none", "SelectType=select/cons_tres", "MpiDefault=none",
            "SelectTypeParameters=CR_Core", "ReturnToService=2", "SwitchType=switch/none",
            "KillWait=2", "MessageTimeout=5", "SlurmdTimeout=20", "SlurmctldTimeout=5",
            "JobRequeue=1", "MinJobAge=1800", "PriorityType=priority/basic",
            "SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=1,"
            "default_queue_depth=500,bf_max_job_test=500,bf_window=2880,bf_resolution=1",
            *self.settings, *nodes,
            f"PartitionName=gpu Nodes=n[1-{NODES}] Default=YES MaxTime=INFINITE State=UP",
            f"PartitionName=other Nodes=n[1-{NODES}] MaxTime=INFINITE State=UP",
        ]  # fmt: skip
        if (place := plugins()) is not None:
            text.append(f"PluginDir={place}")
        (folder / "slurm.conf").write_text("\n".join(text) + "\n")


def processes(conf: Path) -> list[int]:
    """Processes that were begun with this slurm.conf in their environment, and what they began."""
    return [int(place.name) for place in Path("/proc").glob("[0-9]*") if _of(place, conf)]


def _of(place: Path, conf: Path) -> bool:
    """Whether a process is of a cluster; a slurmstepd writes its title over its environment."""
    with suppress(OSError):
        if f"SLURM_CONF={conf}".encode() in (place / "environ").read_bytes().split(b"\0"):
            return True
        if (place / "comm").read_text() == "slurmstepd\n":
            return any(conf.parent in one.readlink().parents for one in (place / "fd").iterdir())
    return False


def end_all(conf: Path) -> None:
    """Kill daemons, jobs and commands of a cluster, whoever their parent is now.

    Raises
    ------
    TimeoutError
        If any of them does not end.
    """

    def gone() -> bool:
        found = processes(conf)
        for process in found:
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        return not found

    until(f"the end of what {conf} began", gone)


def guard(conf: Path) -> subprocess.Popen[bytes]:
    """A process that calls `end_all` once this one is gone, however it was ended."""
    here = Path(__file__).resolve().parents[3]
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.checks.live.real", str(conf)],
        stdin=subprocess.PIPE,
        cwd=here,
        start_new_session=True,
    )


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
        return True
    return False


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that are free now."""
    found = []
    for _ in range(count):
        one = socket.socket()
        one.bind(("127.0.0.1", 0))
        found.append(one)
    ports = [one.getsockname()[1] for one in found]
    for one in found:
        one.close()
    return ports


def _left(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


@contextmanager
def cluster(
    folder: Path,
    *,
    backfill: bool = True,
    slurmdbd: bool = False,
    settings: Sequence[str] = (),
    clock: FakeClock | None = None,
) -> Iterator[RealSlurm]:
    """A real Slurm that is up, and gone behind the block.

    SIGINT and SIGTERM end the block as errors do; while Slurm is ended they wait.
    """
    found = RealSlurm(folder, backfill=backfill, slurmdbd=slurmdbd, settings=settings, clock=clock)
    conf = folder / "slurm.conf"
    keeper = guard(conf)
    before = {number: signal.signal(number, _left) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        found.start()
        yield found
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        try:
            found.stop()
        finally:
            end_all(conf)
            keeper.communicate(timeout=2.0 * _WAIT_S)
            for number, handler in before.items():
                signal.signal(number, handler)


if __name__ == "__main__":  # `guard`
    sys.stdin.buffer.read()
    end_all(Path(sys.argv[1]))
