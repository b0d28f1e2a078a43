"""Progress on stderr: a bar on a terminal, a line every half minute elsewhere, or live lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

SECONDS_BETWEEN_LINES = 30.0
"""Seconds between two lines of progress if stderr is no terminal."""
SECONDS_BETWEEN_VIEWS = 0.25
"""Seconds between two drawings of live lines."""

T = TypeVar("T")


@contextmanager
def stderr_progress(
    unit: str,
    count: Callable[[T], tuple[int, int, str]],
    line: Callable[[T], str],
    *,
    quiet: bool = False,
    first_s: float = SECONDS_BETWEEN_LINES,
    always: Callable[[T], bool] = lambda _: False,
    timed: bool = True,
) -> Iterator[Callable[[T], None] | None]:
    """Show a bar on a terminal, else a line every half minute, or nothing.

    Parameters
    ----------
    unit
        Unit of the bar, for example ``"job"``.
    count, line
        Number done, total and remark for the bar; the text of a line.
    quiet
        Whether nothing is shown.
    first_s
        Seconds to the first line, at most those between two.
    always
        Returns whether a state gets a line in any case.
    timed
        Whether the bar estimates the time left by the number done.

    Yields
    ------
    Callable or None
        Function that takes in the present state; None if nothing is shown.
    """
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _lines(line, first_s, always)
    else:
        from tqdm.auto import tqdm

        form = None if timed else "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
        with tqdm(unit=unit, file=sys.stderr, leave=False, bar_format=form) as bar:

            def update(now: T) -> None:
                done, bar.total, remark = count(now)
                bar.set_postfix_str(remark, refresh=False)
                bar.update(done - bar.n)

            yield update


def _lines(
    line: Callable[[T], str], first_s: float, always: Callable[[T], bool]
) -> Callable[[T], None]:
    due_s = time.monotonic() + min(first_s, SECONDS_BETWEEN_LINES)

    def update(now: T) -> None:
        nonlocal due_s
        now_s = time.monotonic()
        if now_s >= due_s or always(now):
            due_s = now_s + SECONDS_BETWEEN_LINES
            print(line(now), file=sys.stderr, flush=True)

    return update


@contextmanager
def live_lines(lines: Callable[[T], Sequence[str]], first: T) -> Iterator[Callable[[T], None]]:
    """Show a few lines on a terminal and draw them anew as things change.

    Parameters
    ----------
    lines
        The lines for a state, always as many as for ``first``.
    first
        State before the first update.
    """
    from tqdm.auto import tqdm

    with ExitStack() as stack:
        bars: list[Any] = [
            stack.enter_context(
                tqdm(total=0, bar_format="{desc}", position=row, file=sys.stderr, leave=False)
            )
            for row in range(len(lines(first)))
        ]
        latest, due_s = first, 0.0

        def draw() -> None:
            for bar, text in zip(bars, lines(latest), strict=True):
                bar.set_description_str(text)

        def update(now: T) -> None:
            nonlocal latest, due_s
            latest = now
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + SECONDS_BETWEEN_VIEWS
                draw()

        update(first)
        yield update
        draw()
