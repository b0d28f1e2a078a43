"""Files that would act: planted links, run folders that name code, text for the terminal."""

from __future__ import annotations

import gzip
import os
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from morph_opt.core.documents import JSON_BYTES, read_bytes, read_text, write_atomically
from morph_opt.core.documents.source import LIMIT_VARIABLE
from morph_opt.core.domain import InputError, default_cluster
from morph_opt.replay import cli
from morph_opt.replay.scenario import Scenario
from morph_opt.simulation.runs.rounds import HEADER
from morph_opt.simulation.runs.write import RunWriter, create_folder

# ---------------------------------------------------------------- writing


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (".jobs.csv.tmp", ".jobs.csv", "jobs.csv"):
        (tmp_path / name).symlink_to(victim)
    write_atomically(tmp_path / "jobs.csv", "a,b\n")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "jobs.csv").is_symlink()
    assert (tmp_path / "jobs.csv").read_text() == "a,b\n"


def test_a_file_is_private_until_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    opened = os.open

    def watch(path: str, flags: int, mode: int = 0o777) -> int:
        assert flags & os.O_EXCL
        assert flags & os.O_NOFOLLOW
        seen.append(mode)
        return opened(path, flags, mode)

    monkeypatch.setattr("morph_opt.core.documents.writing.os.open", watch)
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", "text")
        assert os.umask(0o027) == 0o027  # left as it was
    finally:
        os.umask(before)
    assert seen == [0o600]
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o640


def test_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("morph_opt.core.documents.writing.os.fsync", full)
    with pytest.raises(InputError, match=r"x: cannot be written \(No space left on device\)"):
        write_atomically(tmp_path / "x", "text")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["/dev/null", ".", "no/such/folder/x", "a\0b"])
def test_only_files_are_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_atomically(tmp_path / name, "text")


@pytest.mark.parametrize("name", ["events.jsonl.partial", "rounds.csv.partial"])
@pytest.mark.parametrize("target", ["/dev/null", "victim"])
def test_growing_files_are_no_links(name: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text(HEADER)
    run = tmp_path / "run"
    create_folder(run, {})
    (run / name).unlink()
    (run / name).symlink_to(tmp_path / target)
    with pytest.raises(InputError, match="symbolic link"):
        RunWriter(run)
    assert (tmp_path / "victim").read_text() == HEADER


# ---------------------------------------------------------------- code that a folder names

EVIL = "from pathlib import Path\nPath({mark!r}).write_text('was here')\n"
ENTRY = "[morph_opt.{group}]\nquiet = evil:p\n"
NAMED = [
    ("policy", {"policy": "evil:p"}),
    ("objective", {"objective": "evil:p"}),
    ("solver", {"solver": "evil:p"}),
    ("trace", {"trace": "evil:p"}),
    ("trace", {"trace": "evil:p/argument"}),
    ("policy", {"policy": "quiet"}),
    ("objective", {"objective": "quiet"}),
    ("solver", {"solver": "quiet"}),
    ("trace", {"trace": "quiet"}),
]


def foreign(folder: Path, named: dict[str, str]) -> Path:
    """A run folder beside a module, and a package that announces it, in the current folder."""
    mark = folder / "mark"
    (folder / "evil.py").write_text(EVIL.format(mark=str(mark)))
    made = folder / "evil-1.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    groups = ("policies", "objectives", "solvers", "traces")
    (made / "entry_points.txt").write_text("".join(ENTRY.format(group=g) for g in groups))
    scenario = Scenario("naive", default_cluster()).replaced(**named)
    create_folder(folder / "run", {"config.toml": scenario.to_toml()})
    return mark


@pytest.mark.parametrize(("what", "named"), NAMED, ids=[str(pair) for pair in NAMED])
def test_a_run_folder_runs_no_code(
    what: str,
    named: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    mark = foreign(tmp_path, named)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # as `python -m` has it
    for more in ([], ["--allow-code"]):
        assert cli.main(["--resume", "run", "--quiet", *more]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert not mark.exists(), what
    if "evil" in str(named):
        assert "cannot import 'evil:p'" in said


def test_command_runs_in_its_own_folder(tmp_path: Path, project_root: Path) -> None:
    mark = foreign(tmp_path, {"policy": "evil:p"})
    for more, words in (([], "--allow-code runs it"), (["--allow-code"], "cannot import")):
        done = subprocess.run(
            [sys.executable, "-m", "morph_opt.replay", "--resume", "run", *more],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(project_root)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert words in done.stderr
        assert not mark.exists()


def test_code_that_the_user_means_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = foreign(tmp_path, {"policy": "evil:p"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["elsewhere", str(tmp_path), *sys.path])
    assert cli.main(["--resume", "run", "--quiet", "--allow-code"]) == 2
    assert mark.exists()  # it ran, and has no `p`
    sys.modules.pop("evil", None)
    assert cli.main(["--trace", "naive", "--allow-code"]) == 2
    assert "--allow-code" in capsys.readouterr().err


@pytest.mark.parametrize(
    "spec",
    [".x:y", "..:y", ":", "x:", ":y", "a b:c", "x" * 5_000, "x" * 5_000 + ":y", "a:b:c", "é/\0:x"],
)
@pytest.mark.parametrize("option", ["--trace", "--policy", "--objective", "--solver"])
def test_malformed_names_are_refused(
    option: str, spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--trace", "naive"] if option != "--trace" else []
    try:
        status = cli.main([*given, option, spec])
    except SystemExit as error:
        status = error.code
    said = capsys.readouterr().err
    assert status == 2
    assert len(said) < 1_200
    assert said.strip("\n").isprintable()


# ---------------------------------------------------------------- what is read


def test_a_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "state.json.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(64):
            file.write(bytes(1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=rf"at most 4 MiB .*{LIMIT_VARIABLE}"):
            read_bytes(path, 4 << 20)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_the_variable_raises_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(2 << 20))
    monkeypatch.setenv(LIMIT_VARIABLE, "1")  # below the limit that there is
    assert len(read_bytes(path, JSON_BYTES)) == 2 << 20
    monkeypatch.setenv(LIMIT_VARIABLE, "2")
    assert len(read_bytes(path, 1 << 20)) == 2 << 20
    for wrong in ("0", "-1", "1.5", "much", "1" * 5_000):
        monkeypatch.setenv(LIMIT_VARIABLE, wrong)
        with pytest.raises(InputError, match=f"{LIMIT_VARIABLE}: must be a whole number of MiB"):
            read_bytes(path, JSON_BYTES)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfa")
    assert read_text(path, 10) == "a"


# ---------------------------------------------------------------- what is said


def test_messages_cut_and_escape_what_they_repeat() -> None:
    shape = "+".join(["8"] * 5_000)
    assert len(str(InputError(f"must look like 8, got {shape!r}"))) < 160
    header = ", ".join(f"column {i}" for i in range(1000))
    assert len(str(InputError(f"got {header!r}", file="x.csv"))) < 160
    error = InputError("got \x1b[31m\n", file="a\x07.csv", field="\u202eb\ud800")
    assert str(error) == "a\\x07.csv, \\u202eb\\ud800: got \\x1b[31m\\n"
    assert error.located(line=3).field == "\u202eb\ud800"
    assert len(str(InputError("x", file="y" * 10_000, field="z" * 10_000))) < 400
    known = "known are " + ", ".join(f"name-{i}" for i in range(30))
    assert str(InputError(known)) == known
