"""A run folder that was interrupted, damaged in every way, and resumed: the same bytes or a no."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from benchmarks.checks.robustness import documents
from benchmarks.checks.robustness.fuzz import bad_line, run_command

GROWING = "events.jsonl.partial", "rounds.csv.partial"
FILES = st.sampled_from((*GROWING, *GROWING, "config.toml", "versions.json"))
SAME = "events.jsonl", "jobs.csv"
PLACE = st.integers(0, 10**6)


class RunFolder(RuleBasedStateMachine):
    """Damage adds up until the run is resumed; then the folder is whole, or is as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.parent = Path(tempfile.mkdtemp())
        self.folder = self.parent / "run"
        self.complete = False

    def teardown(self) -> None:
        shutil.rmtree(self.parent)

    @initialize()
    def interrupted(self) -> None:
        self.folder.mkdir()
        for name, content in documents.run_folder().items():
            (self.folder / name).write_bytes(content)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    @precondition(lambda self: not self.complete)
    @rule(name=FILES, place=PLACE)
    def cut(self, name: str, place: int) -> None:
        """What a kill leaves: a torn end."""
        path = self.folder / name
        if path.exists():
            content = path.read_bytes()
            path.write_bytes(content[: place % (len(content) + 1)])

    @precondition(lambda self: not self.complete)
    @rule(name=FILES, place=PLACE, bit=st.integers(0, 7))
    def flip(self, name: str, place: int, bit: int) -> None:
        path = self.folder / name
        content = bytearray(path.read_bytes() if path.exists() else b"")
        if content:
            content[place % len(content)] ^= 1 << bit
            path.write_bytes(content)

    @precondition(lambda self: not self.complete)
    @rule(
        name=FILES, more=st.sampled_from((b"\n", b"x", b"{}\n", b"\x00" * 9, b"\xff\n", b"1,2\n"))
    )
    def append(self, name: str, more: bytes) -> None:
        path = self.folder / name
        if path.exists():
            path.write_bytes(path.read_bytes() + more)

    @precondition(lambda self: not self.complete)
    @rule(name=FILES)
    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    @precondition(lambda self: not self.complete)
    @rule()
    def name_rounds_early(self) -> None:
        """What a kill between the last two renames leaves."""
        path = self.folder / "rounds.csv.partial"
        if path.exists():
            path.rename(self.folder / "rounds.csv")

    @rule()
    def resume(self) -> None:
        before = self.files()
        began = before.get("events.jsonl.partial", b"").count(b"\n") > 0
        unchanged = before.get("config.toml") == documents.run_folder()["config.toml"]
        status, _, err = run_command("replay", ["--resume", str(self.folder), "--quiet"])
        if status == 0:
            self.complete = True
            if began or unchanged:
                whole = documents.whole_run()
                assert all(self.files()[name] == whole[name] for name in SAME)
            return
        assert status == 2, err
        assert bad_line(err) is None, err
        # A refused run may have got back its growing name; what the files hold is as before.
        assert sorted(self.files().values()) == sorted(before.values())


TestRunFolder = RunFolder.TestCase
TestRunFolder.settings = settings(max_examples=25, stateful_step_count=6)


def test_remains_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for name, content in documents.run_folder().items():
        (folder / name).write_bytes(content)
    for name in (f".{'0af' * 8}.tmp", ".of-the-user.tmp"):
        (folder / name).write_bytes(b"half")
    assert run_command("replay", ["--resume", str(folder), "--quiet"])[0] == 0
    hidden = {path.name for path in folder.iterdir() if path.name.startswith(".")}
    assert hidden == {".of-the-user.tmp"}
