"""Mutate every file format, and report what its readers do.

    python -m benchmarks.checks.robustness.fuzz

A reader may return or raise `InputError` with one short printable line; a command may end with
status 0, 1 or 2 and, if 2, with one such line on stderr. Everything else is a finding, and so is
whatever takes more than `SLOW_S` seconds of processor time. Each reader runs in a process of its
own with limited memory, so that a crash ends one reader only.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import json
import multiprocessing
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from benchmarks.checks.robustness.mutate import mutated
from benchmarks.checks.robustness.readers import READERS, Reader, emptied, filled
from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.domain import InputError
from tests.known import MAIN

SLOW_S = 5.0
"""Processor time, which does not go on while others have the processor."""
LONGEST_LINE = 1200
MEMORY_BYTES = 6 * 2**30
USED_ONE_IN = 10
"""One in so many accepted files is handed to the command as well."""
REPORT = Path(__file__).resolve().parents[3] / "reports" / "robustness"


@dataclass(slots=True)
class Tally:
    """What came of the files of one reader (or the lines of one command).

    Parameters
    ----------
    reader
        Its name.
    tried, accepted, refused
        Files; those that were read, and those that were refused in one line.
    used
        Accepted files that a command went on from.
    exceptions, slow, messages
        Findings: unexpected exceptions and crashes, more than `SLOW_S` seconds, refusals that are
        not one short printable line.
    """

    reader: str
    tried: int = 0
    accepted: int = 0
    refused: int = 0
    used: int = 0
    exceptions: int = 0
    slow: int = 0
    messages: int = 0

    @property
    def findings(self) -> int:
        """All of them."""
        return self.exceptions + self.slow + self.messages


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be; ``index`` and the campaign's seed give the file again."""

    reader: str
    index: int
    kind: str
    what: str


class TooSlowError(Exception):
    """The alarm rang."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer, where Python can be interrupted."""

    def ring(number: int, frame: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def bad_line(text: str) -> str | None:
    """What is wrong with a message; None for one short line that can be printed."""
    if "\n" in text.rstrip("\n"):
        return "several lines"
    if len(text) > LONGEST_LINE:
        return f"{len(text)} characters"
    if not text.rstrip("\n").isprintable():
        return "control characters"
    return None


def judged(act: Callable[[], object]) -> tuple[str, str]:
    """How a call went: ``accepted``, ``refused``, ``exceptions``, ``slow`` or ``messages``."""
    began = time.process_time()
    try:
        with deadline(2 * SLOW_S), warnings.catch_warnings():
            warnings.simplefilter("error")
            act()
        found = "accepted", ""
    except InputError as error:
        wrong = bad_line(str(error))
        found = ("messages", f"{wrong}: {str(error)[:200]!r}") if wrong else ("refused", "")
    except TooSlowError:
        found = "slow", "interrupted"
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        own = [f for f in traceback.extract_tb(error.__traceback__) if "morph_opt" in f.filename]
        at = own[-1] if own else place
        where = f"{Path(at.filename).name}:{at.lineno}"
        found = "exceptions", f"{type(error).__name__} at {where}: {str(error)[:150]}"
    if time.process_time() - began > SLOW_S and found[0] != "exceptions":
        found = "slow", f"{time.process_time() - began:.0f} s ({found[0]})"
    return found


def main_of(command: str) -> Callable[[Sequence[str]], int]:
    """``main`` of ``python -m morph_opt.COMMAND``, wherever it lies."""
    found = importlib.import_module(MAIN.get(command, f"morph_opt.{command}.__main__"))
    main: Callable[[Sequence[str]], int] = found.main
    return main


def run_command(command: str, words: Sequence[str]) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main_of(command)(list(words))
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 1
    return status, out.getvalue(), err.getvalue()


def refused_rightly(command: str, words: Sequence[str]) -> None:
    """Run a command; a wrong status or message is an error, a refusal an `InputError`."""
    status, _, err = run_command(command, words)
    if status == 2:
        last = [line for line in err.splitlines() if not line.startswith(("note:", "trace "))]
        raise InputError("\n".join(last))
    if status not in (0, 1):
        raise RuntimeError(f"exit status {status}: {err[-200:]}")


class Campaign:
    """Files of one reader.

    Parameters
    ----------
    reader, seed
        Whose files, and where chance begins.
    folder
        Scratch.
    bombs
        Whether files may be among them that unpack to gigabytes.
    """

    def __init__(self, reader: Reader, seed: int, folder: Path, *, bombs: bool = True) -> None:
        self.reader = reader
        self.tally = Tally(reader.name)
        self.findings: list[Finding] = []
        self._seed, self._bombs = seed, bombs
        self._folder = emptied(folder)
        self._path = reader.place(self._folder)
        self._seeds = tuple(reader.seeds())

    def content(self, draw: Random) -> bytes:
        """A mutated file."""
        return mutated(draw, draw.choice(self._seeds), self.reader.kind, bombs=self._bombs)

    def try_index(self, index: int) -> None:
        """The file of this number; always the same one."""
        self.try_content(self.content(Random(f"{self._seed}/{self.reader.name}/{index}")), index)

    def try_content(self, content: bytes, index: int = -1) -> None:
        """Read one file, and hand some of those that are accepted to the command."""
        self._path.write_bytes(content)
        self.tally.tried += 1
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            kind, what = judged(lambda: self.reader.read(self._path))
        self._count(kind, what, index)
        if kind == "accepted" and self.reader.use and self.tally.accepted % USED_ONE_IN == 1:
            command = filled(self.reader.use, self._path)
            kind, what = judged(lambda: refused_rightly(*command))
            self.tally.used += 1
            if kind not in ("accepted", "refused"):
                self._count(kind, f"{' '.join(self.reader.use[1])}: {what}", index)
            self._path = self.reader.place(emptied(self._folder))

    def _count(self, kind: str, what: str, index: int) -> None:
        setattr(self.tally, kind, getattr(self.tally, kind) + 1)
        if kind not in ("accepted", "refused"):
            self.findings.append(Finding(self.reader.name, index, kind, what))


def _work(name: str, seed: int, count: int, pipe: Connection) -> None:
    reader = next(reader for reader in READERS if reader.name == name)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as folder:
        campaign = Campaign(reader, seed, Path(folder, "files"))
        for index in range(count):
            campaign.try_index(index)
        pipe.send((campaign.tally, campaign.findings))


def in_process(name: str, seed: int, count: int, limit_s: float) -> tuple[Tally, list[Finding]]:
    """The campaign of one reader in a process of its own; a crash is a finding."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_work, args=(name, seed, count, send)
    )
    process.start()
    send.close()
    try:
        if receive.poll(limit_s):
            return receive.recv()  # type: ignore[no-any-return]
        reason = f"not done after {limit_s:.0f} s"
    except EOFError:
        reason = "the process crashed"
    finally:
        if process.is_alive():
            process.kill()
        process.join()
    return Tally(name, exceptions=1), [Finding(name, -1, "exceptions", reason)]


def write_table(path: Path, kind: type[Tally] | type[Finding], rows: Sequence[object]) -> None:
    """Rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(kind)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(asdict(row))  # type: ignore[call-overload]


def summary(findings: Sequence[Finding]) -> list[str]:
    """Findings by reader and reason, most frequent first."""
    counted = Counter((f.reader, f.kind, f.what) for f in findings)
    first = {(f.reader, f.kind, f.what): f.index for f in reversed(findings)}
    return [
        f"{count:6d} {reader} [{kind}] e.g. index {first[reader, kind, what]}: {what}"
        for (reader, kind, what), count in counted.most_common()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 0 without findings, 1 with."""
    parser = LineParser(description=__doc__)
    parser.add_argument("--files", type=int, default=3500, help="per reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="readers whose name contains this")
    parser.add_argument("--limit-s", type=float, default=3600.0, help="per reader")
    parser.add_argument("--index", type=int, help="one file of one reader, written to stdout")
    parser.add_argument("--out", type=Path, default=REPORT)
    options = parser.parse_args(arguments)
    chosen = [reader for reader in READERS if options.only in reader.name]
    if options.index is not None:
        with tempfile.TemporaryDirectory() as folder:
            campaign = Campaign(chosen[0], options.seed, Path(folder, "files"))
            draw = Random(f"{options.seed}/{chosen[0].name}/{options.index}")
            sys.stdout.buffer.write(campaign.content(draw))
        return 0
    tallies, findings = [], []
    for reader in chosen:
        tally, found = in_process(reader.name, options.seed, options.files, options.limit_s)
        tallies.append(tally)
        findings += found
        print(json.dumps(asdict(tally)), flush=True)
        write_table(options.out / "files.csv", Tally, tallies)
    print("\n".join(summary(findings)))
    print(f"{sum(t.tried for t in tallies)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
