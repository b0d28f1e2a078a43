"""Commands as processes: closed, full and broken streams, signals, disks, and defects of ours."""

from __future__ import annotations

import errno
import importlib
import io
import os
import platform
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from morph_opt import __main__ as root
from morph_opt.commands import COMMANDS
from morph_opt.core.commandline.running import (
    BAD_INPUT,
    BROKEN_PIPE,
    BUG,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    TRACEBACK_VARIABLE,
    as_process,
)
from tests.known import MAIN
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
SLOW = ["--trace", "tests.engine.toys:trace/14", "--policy", "tests.engine.toys:make_shuffler"]
SLOW += ["--interval", "0.5", "--restart-s", "0", "--cluster", "1x4", "--skip-impossible"]
PRINTING = [
    ["round", "--state", "docs/schema/example-state.json"],
    ["policies"],
    ["topology", "show", "2x8"],
    ["data", "list"],
    ["perf", "predict", "--model", "bert", "--max-gpus", "1"],
    ["perf", "memory", "bert", "dp", "1"],
    ["--version"],
    [],
]


def process(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """`python -m morph_opt ...` in a process of its own; stderr is kept."""
    return subprocess.run(
        [sys.executable, "-m", "morph_opt", *arguments],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        **settings,
    )  # type: ignore[call-overload, no-any-return]


def test_the_script_finds_modules_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("class Mine:\n    pass\n")
    code = (
        "import sys; sys.path.pop(0); from morph_opt.__main__ import console; sys.exit(console())"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, "replay", "--trace", "naive", "--policy", "own:Min"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert "own has no 'Min' (did you mean 'Mine'?)" in found.stderr


def closed(number: int) -> Callable[[], None]:
    return lambda: os.close(number)


def one_line(said: str) -> bool:
    return said.startswith("error: ") and said.count("\n") == 1 and "Traceback" not in said


class Full(io.TextIOBase):
    """A stdout on a full disk."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("words", "buffered"), [(["policies"], "1"), (["data", "--help"], "")])
def test_closed_or_full_stdout_ends_the_command_in_one_line(
    words: list[str], buffered: str
) -> None:
    env = {**os.environ, "PYTHONUNBUFFERED": buffered}
    with Path("/dev/full").open("w") as full:
        found = process(*words, stdout=full, env=env)
    assert (found.returncode, one_line(found.stderr)) == (FAILED, True), found.stderr
    found = process(*words, preexec_fn=closed(1), env=env)
    assert (found.returncode, one_line(found.stderr)) == (FAILED, True), found.stderr
    reader, writer = os.pipe()
    os.close(reader)
    found = process(*words, stdout=writer, env=env)
    os.close(writer)
    assert (found.returncode, found.stderr) == (BROKEN_PIPE, "")


@pytest.mark.parametrize("words", PRINTING, ids=lambda words: " ".join(words) or "alone")
def test_a_full_stdout_is_told_by_every_command(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, where it is cheap: the wrapper is the same."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "stdout", Full())
    assert root.main(words) == FAILED
    assert one_line(capsys.readouterr().err.splitlines(keepends=True)[-1])  # behind its notes


@pytest.mark.parametrize(
    "words",
    [
        ["perf-study", "measured", "x" * 300],
        ["readme", "write", "--runs", "x" * 300, "--data", "data", "--readme", "README.md"],
        ["readme", "replay", "--only", "base.jct", "--runs", "file"],
        ["readme", "replay", "--only", "base.jct", "--runs", "file/below"],
        ["topology", "draw", "2x8", "--out", "file/below.svg"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_a_path_that_cannot_be_is_the_users_to_mend(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever part of a command meets it: a name too long, a file where a folder is meant."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert importlib.import_module(MAIN[words[0]]).main(words[1:]) == BAD_INPUT
    said = capsys.readouterr()
    assert one_line(said.err.replace("x" * 300, "x")), said.err
    assert said.out == ""
    assert os.listdir() == ["file"]


def test_a_closed_stderr_keeps_complaints_out_of_the_result() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "morph_opt", "round", "--state", "none.json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        preexec_fn=closed(2),
        check=False,
    )
    assert (found.returncode, found.stdout) == (2, b"")


def interruptible() -> None:
    """Whoever starts the tests in the background hands on that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_until_begun(folder: Path, *more: str) -> subprocess.Popen[str]:
    """A replay that has decided a few rounds, and after some more waits for its signal."""
    running = subprocess.Popen(
        [sys.executable, "-m", "morph_opt.replay", *SLOW, "--out", str(folder), *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HANGS_AFTER": "300"},
        preexec_fn=interruptible,  # noqa: PLW1509 (no threads here)
    )
    log = folder / "events.jsonl.partial"

    def has_begun() -> bool:
        assert running.poll() is None, running.communicate()
        return log.exists() and log.stat().st_size > 2000

    until(has_begun)
    return running


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, INTERRUPTED, "interrupted"), (signal.SIGTERM, TERMINATED, "terminated")],
)
def test_signals_end_a_replay_in_one_line(
    number: signal.Signals, status: int, word: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    running = run_until_begun(folder, "--quiet")
    running.send_signal(number)
    out, said = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out, said.count("\n")) == (status, "", 1), said
    assert said.startswith(f"{word}; ")
    assert f"python -m morph_opt.replay --resume {folder} finishes the run" in said


def test_a_full_disk_is_one_line_and_the_run_can_be_finished(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk; what was cut short is resumed."""
    short = [*SLOW[:4], "--interval", "60", "--cluster", "2x4", "--quiet"]
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert root.main(["replay", *short, "--out", str(whole)]) == 0

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    found = process(
        "replay", *short, "--out", str(folder), stdout=subprocess.DEVNULL, preexec_fn=limited
    )
    assert (found.returncode, one_line(found.stderr)) == (FAILED, True), found.stderr
    assert f"--resume {folder} finishes the run" in found.stderr
    assert root.main(["replay", "--resume", str(folder), "--quiet", "--allow-code"]) == 0
    assert (folder / "events.jsonl").read_bytes() == (whole / "events.jsonl").read_bytes()


def test_a_full_disk_is_no_bad_input_whatever_is_written(tmp_path: Path) -> None:
    """A file that is written in one piece, as reports, answers and models are."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

    words = ["round", "--state", str(ROOT / "docs" / "schema" / "example-state.json")]
    model = tmp_path / "model.lp"
    found = process(*words, "--write-model", str(model), preexec_fn=limited)
    assert (found.returncode, one_line(found.stderr)) == (FAILED, True), found.stderr
    assert f"{model}: cannot be written (File too large)" in found.stderr
    assert list(tmp_path.iterdir()) == []
    missing = tmp_path / "none" / "model.lp"
    found = process(*words, "--write-model", str(missing))
    assert (found.returncode, one_line(found.stderr)) == (BAD_INPUT, True), found.stderr


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (errno.ENOSPC, FAILED), (errno.EDQUOT, FAILED), (errno.EFBIG, FAILED), (errno.EIO, FAILED),
        (errno.EACCES, BAD_INPUT), (errno.EROFS, BAD_INPUT), (errno.ENOENT, BAD_INPUT),
    ],
)  # fmt: skip
def test_failed_write_has_the_exit_status_of_its_cause(
    number: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", failing)
    words = ["round", "--state", str(ROOT / "docs" / "schema" / "example-state.json")]
    assert root.main([*words, "--write-model", str(tmp_path / "model.lp")]) == status
    assert list(tmp_path.iterdir()) == []


def test_a_defect_says_so_and_shows_where_on_demand(tmp_path: Path) -> None:
    """Only a process hides a traceback; `main` raises it, so no test is deceived."""
    # Python runs this module at every start: as if the parser of our own were broken.
    (tmp_path / "sitecustomize.py").write_text(
        "import morph_opt.core.commandline.parser as parser\n"
        "def broken(*args, **kwargs):\n    raise KeyError('oops')\n"
        "parser.LineParser.parse_args = broken\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    words = ["replay", "--trace", "naive", "--out", str(tmp_path / "r")]
    found = process(*words, "--quiet", env=env)
    assert (found.returncode, one_line(found.stderr)) == (BUG, True), found.stderr
    assert "KeyError: 'oops'" in found.stderr
    found = process(*words, "--quiet", env={**env, TRACEBACK_VARIABLE: "1"})
    assert "Traceback" in found.stderr
    assert "sitecustomize.py" in found.stderr


OWN = """
import numpy as np
from formulations.round.tables import Level
from morph_opt.scheduling.decision.objective import Stateless
from morph_opt.scheduling.policies import base
from morph_opt.scheduling.policies.base import Decision

def broken(belief, options):
    return {}["x"]

class Policy(base.Policy):
    name = "mine"
    def __init__(self, belief, options): pass
    def decide(self, state): return self.answer(state)

class Raises(Policy):
    def answer(self, state): return 1 / 0

class Wrong(Policy):
    def answer(self, state): return None

class Objective(Stateless):
    name = "mine"
    def __init__(self, belief, options): pass

class Shape(Objective):
    def goals(self, problem): return (Level.of(problem, "l", "u", np.ones(2)),)

class Array(Objective):
    def goals(self, problem): return np.ones(problem.options.count)

class Infinite(Objective):
    def goals(self, problem):
        return (Level("l", "u", np.full(problem.options.count, np.inf)),)

def trace(argument, *, seed): raise RuntimeError("no trace today")

class Solver:
    name = "mine"
    capabilities = None
    def solve(self, model, limits, start=None): return "optimal"
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--policy", "mine:broken"], ["mine:broken", "line 9", "KeyError: 'x'"]),
        (["--policy", "mine:Raises"], ["Raises.answer", "line 17", "ZeroDivisionError"]),
        (["--policy", "mine:Wrong"], ["mine:Wrong.decide must return", "Decision, got None"]),
        (["--objective", "mine:Shape"], ["Shape.goals", "line 27", "must have shape", "(2,)"]),
        (["--objective", "mine:Array"], ["mine:Array.levels", "tuple", "got ndarray"]),
        (["--objective", "mine:Infinite"], ["mine:Infinite.levels", "must be finite"]),
        (["--trace", "mine:trace"], ["mine:trace", "line 36", "RuntimeError: no trace today"]),
        (["--solver", "mine:Solver", "--method", "exact"], ["mine:Solver.solve", "got str"]),
    ],
)
def test_a_mistake_in_the_user_s_own_code_names_its_place(
    words: list[str],
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, where it is cheap: the wrapper of processes is the same."""
    (tmp_path / "mine.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    usual = [] if "--trace" in words else ["--trace", "naive"]
    line = ["replay", *usual, *words, "--out", str(tmp_path / "r"), "--quiet"]
    status = as_process(lambda _: root.main(line))
    said = capsys.readouterr().err
    assert (status, one_line(said)) == (BAD_INPUT, True), said
    assert not [part for part in expected if part not in said], said
    assert "defect" not in said


def test_the_root_lists_and_runs_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert root.main([]) == 0
    listed = capsys.readouterr().out
    for command in COMMANDS:
        assert f"  {command.name}  " in listed
        assert command.summary in listed
    assert root.main(["topology", "show", "1x2"]) == 0
    assert "node" in capsys.readouterr().out
    assert root.main(["nope"]) == BAD_INPUT
    assert "unknown command 'nope'" in capsys.readouterr().err


def test_progress_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from morph_opt.core.commandline import progress
    from morph_opt.replay import cli

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    short = [*SLOW[:4], "--cluster", "2x4", "--out", str(tmp_path / "run")]
    assert cli.main(short) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if " jobs complete, " in line]
    assert " s: 13 of 14 jobs complete, " in lines[-1]
    assert " of 8 GPUs, 0 queued, simulated " in lines[-1]
    assert len(lines) > 5


def test_resume_is_not_suggested_for_a_run_without_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Removed while the replay went on: what it had decided is nowhere."""
    folder = tmp_path / "run"
    running = run_until_begun(folder, "--quiet")
    (folder / "events.jsonl.partial").unlink()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, said) == (INTERRUPTED, "interrupted\n")
    again = ["--resume", str(folder), "--quiet", "--allow-code"]
    assert root.main(["replay", *again]) == BAD_INPUT
    said = capsys.readouterr().err
    assert one_line(said), said
    assert "finishes the run" not in said


KEPT = """
import resource, sys
from morph_opt.core.commandline.running import as_process

def main(_arguments):
    faults = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        bytes(1) * 2**26
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    print(*faults)
    return 0

sys.exit(as_process(main))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc to keep memory")
def test_memory_freed_by_a_round_is_kept_for_the_next() -> None:
    """64 MiB are 16,384 pages, which the system clears once and not each time."""
    done = subprocess.run(
        [sys.executable, "-c", KEPT], cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S
    )
    first, *later = map(int, done.stdout.split())
    assert max(later) < first / 8
