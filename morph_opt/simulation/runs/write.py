"""Writing of a run folder: created whole, appended round by round, finished by renames.

While a replay runs the folder holds ``config.toml``, ``versions.json`` and two growing files,
``events.jsonl.partial`` and ``rounds.csv.partial``. A round is written as its row of
``rounds.csv`` first and its events second, so that a whole `RoundDecided` line means that the
round is there in full. At the end ``jobs.csv``, ``summary.json`` and, if jobs are of several
queues, users or classes, ``groups.csv`` appear by rename. Then the two growing files lose their
suffix, ``events.jsonl`` last: its presence means a finished run.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TypeVar

from morph_opt.core.documents import (
    LINES_BYTES,
    not_a_file,
    read_bytes,
    remove_unfinished,
    require_no_special,
    write_atomically,
)
from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import typed
from morph_opt.simulation.events.log import Event, RoundDecided, event_from_line, event_to_line
from morph_opt.simulation.runs.rounds import HEADER, RoundRow, row_from_line, row_to_line

EVENTS, ROUNDS, JOBS, SUMMARY = "events.jsonl", "rounds.csv", "jobs.csv", "summary.json"
GROUPS = "groups.csv"
CONFIG, VERSIONS, EXPLAIN = "config.toml", "versions.json", "explain.jsonl"
LIVE = "live"
"""Table of ``config.toml`` with the settings of a live controller."""
PARTIAL = ".partial"
_SYNC_EVERY = 64
_T = TypeVar("_T")


def document_of(index: int) -> str:
    """Return the path of a round's snapshot within the run folder of a live log."""
    return f"rounds/{index:08d}.json.gz"


def require_free(folder: Path) -> None:
    """Refuse a run folder that is in use or cannot be written.

    Raises
    ------
    InputError
        If something is in the way.
    """
    try:
        folder.lstat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # names that no file can have, folders in files
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"the output folder cannot be written ({reason})"
        raise InputError(rule, file=str(folder), field="--out") from error
    if folder.is_dir() and any(folder.iterdir()):
        finished = (folder / EVENTS).is_file()  # its presence means so
        rule = "the output folder is not empty"
        rule += " and its run is finished" if finished else ""
        more = "" if finished else f", or {typed('--resume')} to finish an interrupted run"
        raise InputError(f"{rule}: choose another folder{more}", file=str(folder), field="--out")
    if folder.exists() and not folder.is_dir():
        raise InputError("is a file, not a folder", file=str(folder), field="--out")
    parent = folder.resolve().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise InputError("the output folder cannot be written", file=str(folder), field="--out")


def create_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Create a run folder that holds these files from the start.

    Raises
    ------
    InputError
        If the folder is in use or cannot be written.
    """
    require_free(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            temporary.chmod(0o755)
            for name, text in files.items():
                write_atomically(temporary / name, text)
            (temporary / (ROUNDS + PARTIAL)).write_text(HEADER, encoding="utf-8")
            (temporary / (EVENTS + PARTIAL)).touch()
            temporary.replace(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        rule = f"the output folder cannot be written ({error.strerror or error})"
        raise InputError(rule, file=str(folder), field="--out") from error


def reopen_rounds(folder: Path) -> None:
    """Repair a folder whose run was killed between the last two renames."""
    grown, final = folder / (ROUNDS + PARTIAL), folder / ROUNDS
    if (folder / (EVENTS + PARTIAL)).exists() and final.exists() and not grown.exists():
        final.replace(grown)


class RunWriter:
    """Writer of rounds to an open run folder.

    Parameters
    ----------
    folder
        Made by `create_folder`, perhaps of an interrupted run. It is locked until `close`.

    Raises
    ------
    InputError
        If another process writes to the folder, a growing file is missing, or a folder or the like
        is where a file will be written at the end.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._since_sync = 0
        with ExitStack() as opened:
            self._events = opened.enter_context(_open_growing(folder / (EVENTS + PARTIAL)))
            self._rounds = opened.enter_context(_open_growing(folder / (ROUNDS + PARTIAL)))
            for name in (
                JOBS,
                GROUPS,
                SUMMARY,
                ROUNDS,
                EVENTS,
            ):  # others could not be replaced
                require_no_special(folder / name)
            remove_unfinished(folder)  # of a run that was killed; it is locked, nobody writes now
            self._opened = opened.pop_all()

    def cut(self, events_bytes: int, rounds_bytes: int) -> None:
        """Drop everything after the whole part of an interrupted run."""
        for file, keep_bytes in ((self._events, events_bytes), (self._rounds, rounds_bytes)):
            file.truncate(keep_bytes)
            file.seek(keep_bytes)

    def commit(self, events: list[Event], row: RoundRow | None) -> None:
        """Append a round (or, without a row, the beginning or the end of the log)."""
        if row is not None:
            self._rounds.write(row_to_line(row).encode())
        self._events.write("".join(event_to_line(e) + "\n" for e in events).encode())
        self._rounds.flush()
        self._events.flush()
        self._since_sync += 1
        if self._since_sync >= _SYNC_EVERY:
            self._sync()

    def _sync(self) -> None:
        os.fsync(self._rounds.fileno())
        os.fsync(self._events.fileno())
        self._since_sync = 0

    def finish(self, files: Mapping[str, str]) -> None:
        """Write the last files, by name, and give the growing ones their names."""
        self._sync()
        for name, text in files.items():
            write_atomically(self._folder / name, text)
        for name in (ROUNDS, EVENTS):
            (self._folder / (name + PARTIAL)).replace(self._folder / name)
        self.close()

    def close(self) -> None:
        """Close the files; the run can be resumed if it is not finished."""
        self._opened.close()


def _open_growing(path: Path) -> IO[bytes]:
    """Open a growing file, locked, at its end."""
    try:
        # Through a planted link the run would be written into another file.
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            missing = f"holds no run that could be finished (no {path.name})"
            raise InputError(missing, file=str(path.parent)) from None
        rule = "is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise InputError(f"cannot be opened ({rule})", file=str(path)) from error
    file = os.fdopen(descriptor, "r+b", closefd=True) if _is_plain(descriptor) else None
    if file is None:
        os.close(descriptor)
        raise InputError("must be a file, it is something else", file=str(path))
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        rule = "is being written by another process"
        raise InputError(rule, file=str(path.parent), field="resume") from error
    file.seek(0, os.SEEK_END)
    return file


class Recorded:
    """Records of an interrupted run, up to its last whole round.

    Parameters
    ----------
    folder
        The run folder.

    Attributes
    ----------
    lines
        Event lines with their parsed events.
    rows
        Rows of ``rounds.csv``, as many as there are decided rounds in ``lines``.
    events_bytes, rounds_bytes
        Length of the whole parts.

    Raises
    ------
    InputError
        If a whole line is not what such a file holds; names file and line.
    """

    def __init__(self, folder: Path) -> None:
        rounds_path = folder / (ROUNDS + PARTIAL)
        texts = _whole_lines(rounds_path)
        if not texts or texts[0] + "\n" != HEADER:
            raise InputError("has no such header", file=str(rounds_path), line=1)
        self.rows: list[RoundRow] = []
        for number, text in enumerate(texts[1:], start=2):
            self.rows.append(_parsed(row_from_line, text, rounds_path, number))
        self.lines: list[tuple[str, Event]] = []
        self._read_events(folder / (EVENTS + PARTIAL))
        decided = sum(isinstance(event, RoundDecided) for _, event in self.lines)
        del self.rows[decided:]
        self.events_bytes = sum(len(text.encode()) + 1 for text, _ in self.lines)
        self.rounds_bytes = sum(len(text.encode()) + 1 for text in texts[: decided + 1])

    def _read_events(self, path: Path) -> None:
        """Keep events up to the last round that also has its row."""
        tail: list[tuple[str, Event]] = []
        decided = 0
        for number, text in enumerate(_whole_lines(path), start=1):
            event = _parsed(event_from_line, text, path, number)
            tail.append((text, event))
            if isinstance(event, RoundDecided):
                decided += 1
                if decided > len(self.rows):
                    return
                self.lines += tail
                tail = []


def _whole_lines(path: Path) -> list[str]:
    """Return lines that end in a line break, without a torn last line."""
    return read_bytes(path, LINES_BYTES).decode("utf-8", errors="replace").split("\n")[:-1]


def _is_plain(descriptor: int) -> bool:
    return not_a_file(os.fstat(descriptor).st_mode) is None


def _parsed(reader: Callable[[str], _T], text: str, path: Path, number: int) -> _T:
    try:
        return reader(text)
    except InputError as error:
        raise error.located(file=str(path), line=number) from error
