"""Running a command line in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def exit_status(main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """What the command's process would end with: its parser leaves by itself."""
    try:
        return main(arguments)
    except SystemExit as left:
        return int(left.code or 0)
