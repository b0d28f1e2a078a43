"""How far a replay is: a line for a terminal or a log, and a full-screen view of it."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from morph_opt.domain import InputError
from morph_opt.events.log import RoundDecided
from morph_opt.replay.run import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType

SECONDS_BETWEEN_LINES = 30.0
"""Between two lines of progress where no terminal shows a bar."""
SECONDS_TO_FIRST_LINE = 2.0
"""Soon enough for whoever waits for one."""
REMEMBERED = 60
"""Rounds that the full-screen view draws."""
LEAST_DONE = 0.02
"""Part of the jobs that must be complete before the time left is shown."""
BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(slots=True)
class Meter:
    """What is known of a replay while it runs.

    Parameters
    ----------
    jobs, gpus
        Of the whole trace and cluster.
    clock
        Seconds of wall time.
    """

    jobs: int
    gpus: int
    clock: Callable[[], float] = time.perf_counter
    completed: int = 0
    last: RoundDecided | None = None
    used: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    queued: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def update(self, decided: RoundDecided, completed: int) -> None:
        """Take in a round; see `morph_opt.replay.run.Progress`."""
        self.last, self.completed = decided, completed
        self.used.append(decided.gpus / self.gpus if self.gpus else 0.0)
        self.queued.append(float(decided.active - decided.running))

    @property
    def elapsed_s(self) -> float:
        """Wall time since the beginning."""
        return self.clock() - self.began

    @property
    def left_s(self) -> float | None:
        """Wall time left, as if the jobs that are left took as long as those complete; or None."""
        if self.completed < max(1.0, LEAST_DONE * self.jobs):
            return None
        return self.elapsed_s * (self.jobs - self.completed) / self.completed

    def parts(self) -> list[str]:
        """GPUs in use, queue and gap of the last round."""
        if self.last is None:
            return []
        found = [
            f"{self.last.gpus} of {self.gpus} GPUs",
            f"{self.last.active - self.last.running} queued",
        ]
        return found if self.last.gap is None else [*found, f"gap {100.0 * self.last.gap:.2g} %"]

    def line(self) -> str:
        """Everything in one line."""
        left = "" if self.left_s is None else f", about {duration(self.left_s)} left"
        simulated = 0.0 if self.last is None else self.last.time_s / 3600.0
        return (
            f"{self.elapsed_s:.0f} s: {self.completed} of {self.jobs} jobs complete, "
            f"{', '.join(self.parts())}, simulated {simulated:.1f} h{left}"
        )


def duration(seconds: float) -> str:
    """``40 s``, ``12 min`` or ``3.5 h``.

    >>> duration(90.0)
    '90 s'
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.1f} h"


@contextmanager
def shown_progress(
    jobs: int, gpus: int, title: str, *, quiet: bool, watch: bool
) -> Iterator[Progress | None]:
    """A full screen if asked for, else a bar on a terminal, else a line now and then.

    Raises
    ------
    InputError
        If a full screen is asked for where there is no terminal or no ``rich``.
    """
    meter = Meter(jobs, gpus)
    if watch:
        with _screen(meter, title) as update:
            yield update
    elif quiet:
        yield None
    elif not sys.stderr.isatty():
        yield _lines_now_and_then(meter)
    else:
        with _bar(meter) as update:
            yield update


@contextmanager
def _bar(meter: Meter) -> Iterator[Progress]:
    from tqdm.auto import tqdm

    with tqdm(total=meter.jobs, unit="job", file=sys.stderr, leave=False) as bar:

        def update(decided: RoundDecided, completed: int) -> None:
            meter.update(decided, completed)
            bar.set_postfix_str(", ".join(meter.parts()), refresh=False)
            bar.update(completed - bar.n)

        yield update


def _lines_now_and_then(meter: Meter) -> Progress:
    due = meter.began + min(SECONDS_TO_FIRST_LINE, SECONDS_BETWEEN_LINES)

    def update(decided: RoundDecided, completed: int) -> None:
        nonlocal due
        meter.update(decided, completed)
        now = meter.clock()
        if now >= due:
            due = now + SECONDS_BETWEEN_LINES
            print(meter.line(), file=sys.stderr, flush=True)

    return update


# ---------------------------------------------------------------- full screen


def require_watchable() -> None:
    """Refuse a full-screen view that cannot be.

    Raises
    ------
    InputError
        If stderr is no terminal.
    """
    if not sys.stderr.isatty():
        raise InputError("needs a terminal on stderr", field="--watch")


@contextmanager
def _screen(meter: Meter, title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.live import Live

    require_watchable()
    console = Console(stderr=True)
    with Live(screen(meter, title), console=console, screen=True, auto_refresh=False) as live:
        drawn = meter.began

        def update(decided: RoundDecided, completed: int) -> None:
            nonlocal drawn
            meter.update(decided, completed)
            now = meter.clock()
            if now - drawn >= 0.25:
                drawn = now
                live.update(screen(meter, title), refresh=True)

        yield update


def sparkline(values: deque[float], most: float) -> str:
    """One block per value, full at ``most``.

    >>> sparkline(deque([0.0, 0.5, 1.0]), 1.0)
    ' ▄█'
    """
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[min(top, max(0, round(v / most * top)))] if most else " " for v in values)


def screen(meter: Meter, title: str) -> RenderableType:
    """The view as it stands."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid.grid(padding=(0, 2))
    for row in _rows(meter):
        grid.add_row(*(Text(cell) for cell in row))
    bar: Any = ProgressBar(total=max(1, meter.jobs), completed=meter.completed)
    return Panel(Group(bar, Text(""), grid), title=Text(title), title_align="left")


def _rows(meter: Meter) -> Iterator[tuple[str, ...]]:
    last = meter.last
    left = meter.left_s
    yield "jobs complete", f"{meter.completed} of {meter.jobs}", ""
    yield (
        "wall time",
        duration(meter.elapsed_s),
        "" if left is None else f"about {duration(left)} left",
    )
    if last is None:
        return
    yield "simulated", f"{last.time_s / 3600.0:.2f} h", f"round {last.index}"
    yield "GPUs in use", f"{last.gpus} of {meter.gpus}", sparkline(meter.used, 1.0)
    most = max(meter.queued, default=0.0)
    queued = last.active - last.running
    yield (
        "jobs queued",
        f"{queued} of {last.active} active",
        sparkline(meter.queued, max(most, 1.0)),
    )
    gap = "none proven" if last.gap is None else f"{100.0 * last.gap:.2g} %"
    yield "last round", last.status, f"gap {gap}"
    if last.guarantees_short:
        yield "guarantees short", str(last.guarantees_short), ""
