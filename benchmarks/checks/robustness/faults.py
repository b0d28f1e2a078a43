"""Kill a replay, fill its disk, let its solver lie, turn its clock, write its folder twice.

    python -m benchmarks.checks.robustness.faults

Whatever happens to a replay, it is resumed and must end with the bytes of the run that nothing
happened to. Runs are forked from this process, so that an instant costs no start-up; the kills are
SIGKILL to a real process.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import importlib
import io
import itertools
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.checks.robustness.fuzz import REPORT, bad_line
from benchmarks.checks.robustness.liars import LIES, lied_to
from morph_opt.core.commandline.parser import LineParser
from morph_opt.replay.cli import main as replay_main

SAME = "events.jsonl", "jobs.csv", "config.toml"
SOLVERS = {"highspy", "ortools", "pyscipopt", "pulp", "cvxpy"}
"""Libraries that may start threads."""
MOST_S = 300.0
"""Longest that one run may take."""

RUNS: dict[str, tuple[str, ...]] = {
    "naive, srtf": ("--trace", "naive", "--policy", "srtf", "--interval", "300"),
    "naive, milp": ("--trace", "naive", "--until-s", "4000"),
    "base, milp jct": ("--trace", "base", "--objective", "jct", "--until-s", "1500"),
    "mt, equal_split": ("--trace", "mt", "--policy", "equal_split", "--until-s", "9000"),
    "packing": ("--trace", "gavel-96", "--packing", "--objective", "las", "--until-s", "15000",
                "--interval", "360"),
    "packing at random": ("--trace", "gavel-96", "--packing", "--policy", "gavel:gandiva",
                          "--until-s", "15000", "--interval", "360"),
    "packing by trial": ("--trace", "gavel-96", "--packing", "--policy", "gandiva",
                         "--until-s", "15000", "--interval", "360", "--restart-s", "20",
                         "--cluster", "1x4:V100+1x4:P100+1x4:K80"),
    "failures": ("--trace", "naive", "--policy", "srtf", "--mtbf-s", "20000", "--mttr-s", "900",
                 "--checkpoint-s", "600", "--until-s", "30000"),
    "learning": ("--trace", "naive", "--online-fit", "--until-s", "2400"),
    "introspection": ("--trace", "gavel-96", "--packing", "--belief", "measured", "--objective",
                      "jct", "--until-s", "9000", "--interval", "360"),
}  # fmt: skip
"""What is killed; short cuts of the traces."""


@dataclass(frozen=True, slots=True)
class Row:
    """Faults of one kind in one case.

    Parameters
    ----------
    fault, case
        What happened, to what.
    tried
        How often.
    twice
        How many of them were hit again while they were resumed.
    differences
        Ends that are not what they must be.
    first
        The first of them in words.
    """

    fault: str
    case: str
    tried: int
    twice: int
    differences: int
    first: str = ""


class Child:
    """A replay in a process of its own.

    Parameters
    ----------
    words
        Of the command line.
    errors
        File that gets its stderr.
    before
        Called in the child before it begins.
    """

    def __init__(
        self, words: Sequence[str], errors: Path, before: Callable[[], object] = lambda: None
    ) -> None:
        self.errors = errors
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 99
            try:
                out = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(out, 2)
                sys.stderr = os.fdopen(2, "w")
                before()
                status = replay_main([*words, "--quiet"])
            except BaseException as error:
                with contextlib.suppress(OSError):
                    print(f"{type(error).__name__}: {error}", file=sys.stderr)
            finally:
                with contextlib.suppress(OSError):
                    sys.stderr.flush()
                os._exit(status)

    def wait(self, limit_s: float = MOST_S) -> int:
        """Exit status, negative for a signal; one that does not end is killed (-9)."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return -signal.SIGKILL

    def said(self) -> str:
        """Its stderr."""
        return self.errors.read_text("utf-8", errors="replace") if self.errors.exists() else ""


def bytes_of(folder: Path) -> dict[str, bytes]:
    """The files that say what a run decided."""
    return {name: (folder / name).read_bytes() for name in SAME if (folder / name).exists()}


class Case:
    """A run, uninterrupted, with which others are compared.

    Parameters
    ----------
    name
        Of `RUNS`.
    parent
        Scratch.
    """

    def __init__(self, name: str, parent: Path) -> None:
        self.name, self.words, self._parent = name, RUNS[name], parent
        self._number = 0
        self._import_what_it_needs()
        began = time.monotonic()
        folder = self.folder()
        assert Child([*self.words, "--out", str(folder)], self.errors).wait() == 0, self.said()
        self.seconds = time.monotonic() - began
        self.whole = bytes_of(folder)

    @property
    def errors(self) -> Path:
        """File of stderr."""
        return self._parent / "errors.txt"

    def said(self) -> str:
        """Stderr of the last run."""
        return self.errors.read_text("utf-8", errors="replace")

    def folder(self) -> Path:
        """A folder that is not there yet."""
        self._number += 1
        return self._parent / f"{self.name.replace(', ', '-').replace(' ', '-')}-{self._number}"

    def _import_what_it_needs(self) -> None:
        """Import here what the run imports on its way.

        Each child would do it anew, for longer than it runs. What solves nothing is run here, too,
        and children find it remembered; other runs are not, so that no thread of a solver is
        forked.
        """
        names = self._parent / "modules.txt"

        def told_at_the_end() -> None:
            ended = os._exit

            def end(status: int) -> None:
                names.write_text("\n".join(sys.modules), "utf-8")
                ended(status)

            os._exit = end  # type: ignore[assignment]

        assert self.start(self.folder(), told_at_the_end).wait() == 0, self.said()
        modules = names.read_text("utf-8").splitlines()
        for name in modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        if SOLVERS.isdisjoint(modules):
            with contextlib.redirect_stdout(io.StringIO()):
                assert replay_main([*self.words, "--out", str(self.folder()), "--quiet"]) == 0

    def start(self, folder: Path, before: Callable[[], object] = lambda: None) -> Child:
        """Begin the run, or resume it if it has begun."""
        words = (
            ["--resume", str(folder)] if folder.exists() else [*self.words, "--out", str(folder)]
        )
        return Child(words, self.errors, before)

    def wrong_end(self, folder: Path) -> str:
        """Resume until the end; what is wrong then, or nothing."""
        status = self.start(folder).wait()
        if status != 0:
            return f"resumed with exit status {status}: {self.said()[-200:].strip()}"
        if bytes_of(folder) != self.whole:
            return "other bytes"
        left = [p.name for p in folder.iterdir() if p.name.endswith((".partial", ".tmp"))]
        return f"left behind {left}" if left else ""


def tallied(fault: str, case: str, ends: Sequence[str], twice: int = 0) -> Row:
    """A row of the report."""
    wrong = [end for end in ends if end]
    return Row(fault, case, len(ends), twice, len(wrong), wrong[0] if wrong else "")


def killed(case: Case, count: int, seed: int) -> Row:
    """SIGKILL at random instants, half of them again while the run is resumed."""
    draw = random.Random(f"{seed}/{case.name}")
    ends, twice = [], 0
    while len(ends) < count:
        folder = case.folder()
        child = case.start(folder)
        time.sleep(draw.uniform(0.0, case.seconds))
        os.kill(child.pid, signal.SIGKILL)
        if child.wait() == 0 or not folder.exists():
            continue  # it was done, or had not begun
        if draw.random() < 0.5:
            again = case.start(folder)
            time.sleep(draw.uniform(0.0, case.seconds))
            os.kill(again.pid, signal.SIGKILL)
            twice += again.wait() != 0
        ends.append(case.wrong_end(folder))
    return tallied("kill -9 at a random instant", case.name, ends, twice)


# ------------------------------------------------------------------ disk


class _Half:
    """A file that takes half of what is written to it, and then the disk is full."""

    def __init__(self, file: Any, full: Callable[[], bool]) -> None:
        self._file, self._full = file, full

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Half:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> int:
        if self._full():
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self._file.write(data))


def disk_full_at(number: int) -> Callable[[], None]:
    """Make every write, synchronisation, creation and rename from that one on fail."""

    def install() -> None:
        done = iter(range(10**9))

        def full() -> bool:
            return next(done) >= number

        opened = os.fdopen
        os.fdopen = lambda *a, **k: _Half(opened(*a, **k), full)  # type: ignore[assignment]
        for name in ("fsync", "replace", "mkdir"):
            setattr(os, name, _failing(getattr(os, name), full))

    return install


def _failing(true: Callable[..., Any], full: Callable[[], bool]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        if full():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return true(*arguments, **named)

    return call


def _refused(child: Child) -> str:
    """What is wrong with how a run gave up."""
    status = child.wait()
    said = child.said()
    if status not in (1, 2):
        return f"exit status {status}: {said[-200:].strip()}"
    return f"{bad_line(said)}: {said[:200]!r}" if bad_line(said) else ""


def full_disk(case: Case, most: int) -> Row:
    """The disk is full from the first, second, third ... write on; then there is space again."""
    ends: list[str] = []
    for number in range(most):
        folder = case.folder()
        wrong = _refused(case.start(folder, disk_full_at(number)))
        if wrong.startswith("exit status 0"):
            break  # the run has no more writes
        ends.append(wrong or case.wrong_end(folder))
    return tallied("disk full at a write", case.name, ends)


def largest_file(case: Case, count: int) -> Row:
    """No file may grow beyond a size (RLIMIT_FSIZE): the kernel refuses the write itself."""
    sizes = sorted(len(content) for content in case.whole.values())
    ends = []
    for step in range(1, count + 1):
        most = sizes[-1] * step // (count + 1)
        folder = case.folder()
        limited = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, most))
        ends.append(_refused(case.start(folder, limited)) or case.wrong_end(folder))
    return tallied("file size limited", case.name, ends)


# ------------------------------------------------------------------ clocks and writers


@contextlib.contextmanager
def _stopped(child: Child) -> Iterator[None]:
    os.kill(child.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(child.pid, signal.SIGCONT)


def turned_clock(seed: int) -> Callable[[], None]:
    """The wall clock jumps by up to thirty years with every look at it."""

    def install() -> None:
        draw = random.Random(seed)
        true = time.time
        time.time = lambda: true() + draw.uniform(-1e9, 1e9)

    return install


def clock_jumps(case: Case, count: int, seed: int) -> Row:
    """A run under a clock that jumps."""
    ends = []
    for number in range(count):
        folder = case.folder()
        status = case.start(folder, turned_clock(seed + number)).wait()
        ends.append(f"exit status {status}" if status else case.wrong_end(folder))
    return tallied("wall clock jumps", case.name, ends)


def two_writers(case: Case, count: int, seed: int) -> Row:
    """A second process takes up a run that the first, which sleeps, is still writing."""
    draw = random.Random(seed)
    ends: list[str] = []
    while len(ends) < count:
        folder = case.folder()
        first = case.start(folder)
        # From when it writes on: before, there is nothing to take up, and most of a run is before.
        until = time.monotonic() + case.seconds
        while not folder.exists() and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(draw.uniform(0.0, 0.1 * case.seconds))
        with _stopped(first):
            begun = folder.exists() and not (folder / SAME[0]).exists()
            wrong = _refused(case.start(folder)) if begun else ""
        status = first.wait()
        if begun:
            ends.append(wrong or (f"first: exit status {status}" if status else ""))
            ends[-1] = ends[-1] or case.wrong_end(folder)
    return tallied("two writers", case.name, ends)


def campaign(
    cases: Sequence[Case], kills: int, writes: int, others: int, seed: int
) -> Iterator[Row]:
    """Everything that may happen to runs."""
    for place, case in enumerate(cases):
        share = kills // len(cases) + (place < kills % len(cases))
        yield killed(case, share, seed)
    yield full_disk(cases[0], writes)
    yield largest_file(cases[0], others)
    for case in cases:
        yield clock_jumps(case, min(others, 3), seed)
    yield two_writers(cases[-1], others, seed)


def lies() -> Iterator[Row]:
    """Everything that solvers may do."""
    for solver, lie in LIES:
        yield tallied(f"solver: {lie}", solver, lied_to(solver, lie))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 0 without differences, 1 with."""
    parser = LineParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=112)
    parser.add_argument("--writes", type=int, default=400, help="at most, of the full disk")
    parser.add_argument("--others", type=int, default=10, help="of every other fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without-solvers", action="store_true")
    parser.add_argument("--only", default="", help="runs whose name contains this")
    parser.add_argument("--out", type=Path, default=REPORT)
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(name, Path(folder)) for name in RUNS if options.only in name]
        happening = campaign(cases, options.kills, options.writes, options.others, options.seed)
        solving = () if options.without_solvers else lies()
        for row in itertools.chain(happening, solving):
            rows.append(row)
            print(row, flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "faults.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    bad = sum(row.differences for row in rows)
    print(f"{sum(row.tried for row in rows)} faults, {bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
