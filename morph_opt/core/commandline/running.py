"""Entry point of every command: how it ends on bad input, full disks, closed pipes and signals."""

from __future__ import annotations

import argparse
import ctypes
import errno
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from morph_opt.core.commandline.parser import LineParser
from morph_opt.core.domain import InputError
from morph_opt.core.domain.errors import ContractError, on_command_line

BAD_INPUT, FAILED, BUG = 2, 1, 70
"""Exit statuses: error of the user, of the machine, of morph-opt (EX_SOFTWARE of sysexits.h)."""

WRONG_PATH = frozenset(
    (
        errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT,
        errno.ENOTDIR, errno.ENOTEMPTY, errno.ENXIO, errno.EPERM, errno.EROFS,
    )
)  # fmt: skip
"""Operating system errors that a wrong path causes."""

FULL_DISK = frozenset((errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC))
"""Operating system errors of a full or broken disk."""

BROKEN_PIPE = 128 + signal.SIGPIPE
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Parameters of glibc's ``mallopt`` (malloc.h)."""

TRACEBACK_VARIABLE = "MORPH_OPT_TRACEBACK"
"""Environment variable that shows the traceback of an unexpected error."""


class Terminated(KeyboardInterrupt):
    """Interrupt that SIGTERM raises, so that it ends a command as Ctrl-C does."""


def run_command(
    parser: LineParser,
    run: Callable[[argparse.Namespace], int],
    arguments: Sequence[str] | None = None,
) -> int:
    """Parse and run a command; report every expected error in one line.

    Parameters
    ----------
    parser
        Says itself what is wrong with the usage.
    run
        Returns the exit status. Notes of what it raises are printed after the line
        (`BaseException.add_note`), for example how to continue.
    arguments
        Words of the command line; None for the process's own.

    Returns
    -------
    int
        Exit status. What is not expected is raised; see `as_process`.
    """
    try:
        with on_command_line():
            status = run(parser.parse_args(arguments))
        sys.stdout.flush()
        return status
    except InputError as error:
        # Rules that contradict each other are named one per line.
        more = (f"  {line}" for line in getattr(error, "lines", ()))
        _say(f"error: {_blamed_on(error) or parser.as_typed(error)}", error, *more)
        return FAILED if getattr(error.__cause__, "errno", None) in FULL_DISK else BAD_INPUT
    except SystemExit as left:  # of the parser: usage or help
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BrokenPipeError:
        return BROKEN_PIPE  # the reader has enough: nothing is wrong
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""  # none: a stream
        text = "is a file, not a folder" if error.errno == errno.EEXIST else error.strerror
        _say(f"error: {what}{text or error}", error)
        return BAD_INPUT if error.filename and error.errno in WRONG_PATH else FAILED
    except ContractError as error:
        _say(f"error: {error}", error)
        return FAILED
    except MemoryError as error:
        _say("error: out of memory", error)
        return FAILED
    except KeyboardInterrupt as error:
        ended = isinstance(error, Terminated)
        _say("terminated" if ended else "interrupted", error)
        return TERMINATED if ended else INTERRUPTED


def as_process(main: Callable[[Sequence[str] | None], int]) -> int:
    """Run a command as the process: set up streams and signals, and report defects in one line.

    Parameters
    ----------
    main
        Main function of a command, which takes the arguments, None for the process's own.

    Notes
    -----
    What `run_command` does not answer is a defect of ours: one line that says so, and status 70;
    unless it came through a user's own policy, objective, trace or solver, whose place is named.
    Only a process hides it so; a test that calls `main` sees the error itself.
    """
    _open_streams()
    keep_memory()
    try:
        with _sigterm():
            return _flushed(main(None))
    except KeyboardInterrupt as error:  # before or after the command itself
        return TERMINATED if isinstance(error, Terminated) else INTERRUPTED
    except BaseException as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            with suppress(OSError):
                traceback.print_exc()
        foreign = _blamed_on(error)
        if foreign is not None:
            _say(f"error: {foreign}; {TRACEBACK_VARIABLE}=1 shows the way there", error)
            return BAD_INPUT
        text = " ".join(str(error).split())[:200]
        _say(
            f"error: a defect of morph-opt ({type(error).__name__}: {text}); please report it with "
            f"this command and what it prints with {TRACEBACK_VARIABLE}=1",
            error,
        )
        return BUG


def _blamed_on(error: BaseException) -> str | None:
    from morph_opt.core.extend import blamed_on

    return blamed_on(error)


def _say(line: str, error: BaseException, *more: str) -> None:
    """Print lines on stderr; do nothing if it cannot be written to."""
    notes = getattr(error, "__notes__", ())
    with suppress(OSError, ValueError):
        print("\n".join(("; ".join((line, *notes)), *more)), file=sys.stderr)


def _flushed(status: int) -> int:
    """Flush stdout; return the given status, or another one if flushing fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = status or BROKEN_PIPE
    except OSError as error:
        if not status:
            _say(f"error: stdout: {error.strerror}", error)
        status = status or FAILED
    else:
        return status
    # What is left in the buffer would be tried again, and complained of, when Python ends.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


class _Closed(io.TextIOBase):
    """Stand-in for a stdout that was closed before the start; writing to it fails."""

    def write(self, _text: str, /) -> int:
        """Raise `OSError`: there is no stdout."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "stdout")


def _open_streams() -> None:
    """Replace standard streams that are closed.

    Python has None for them: `print` to a closed stderr would go to stdout, and the first file that
    is opened would get the number of the closed stream, and whatever a library prints there.
    """
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(number)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO())
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (as long as we live)


def keep_memory() -> None:
    """Keep freed memory for the next round, if the C library is glibc.

    Rounds of a million GPUs free gigabytes and allocate them again: clearing fresh pages would take
    a third of their time. Only a process of its own sets this, never an imported library, so it is
    set here.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return  # another C library
    mallopt(TRIM_THRESHOLD, -1)
    mallopt(MMAP_MAX, 0)


@contextmanager
def _sigterm() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM within this context."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
