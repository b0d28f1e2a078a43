"""Driver of a sweep: runs cells without a result, keeps results, estimates the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from morph_opt.core.commandline.progress import stderr_progress
from morph_opt.core.documents import LINES_BYTES, read_bytes
from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_each, require_type
from morph_opt.scheduling.policies.scheduler import require_scheduler
from morph_opt.sweep import worker
from morph_opt.sweep.cell import Cell
from morph_opt.sweep.executors import FIELD, default_on, executor
from morph_opt.sweep.order import MISSED, Done, Failure, Limits, Order
from morph_opt.sweep.store import CellStore, Found


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a sweep.

    Parameters
    ----------
    cells, done, failed, cached
        Number of all cells; of those with a result; of failed ones; of those from the cache.
    seconds
        Time since it began.
    what
        Name of this lot of cells if there are several; shown first.
    """

    cells: int
    done: int
    failed: int
    cached: int
    seconds: float
    what: str = ""

    @property
    def left_s(self) -> float | None:
        """Estimated time left in seconds, from the pace so far; None before the first cell."""
        ran = self.done + self.failed - self.cached
        if ran <= 0:
            return None
        return self.seconds / ran * (self.cells - self.done - self.failed)

    def __str__(self) -> str:
        left_s = self.left_s
        about = "" if left_s is None else f", about {left_s:.0f} s left"
        failed = f", {self.failed} failed" if self.failed else ""
        ready = f"{self.done} of {self.cells} cells done ({self.cached} cached){failed}"
        before = f"{self.what}: " if self.what else ""
        return f"{before}{ready}, {self.seconds:.0f} s{about}"


def run_cells(
    cells: Sequence[Cell],
    store: CellStore | str | Path,
    *,
    on: str | None = None,
    limits: Limits | None = None,
    retry_failed: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> list[Found]:
    """Run cells and return their results in order; equal cells are run once.

    Parameters
    ----------
    cells
        Cells to run.
    store
        The cache, or its folder.
    on
        See `morph_opt.sweep.executors`; None: a child process per core.
    limits
        Limits of each cell.
    retry_failed
        Whether to run failed cells again. Without it only those are run again that were lost
        with their worker, or failed by a limit that is wider now.
    progress
        Function that is called after every cell.

    Raises
    ------
    InputError
        If files of a cell are missing, its scheduler is of no name that is known, a folder of the
        cache is of another version, or the executor cannot be had. Nothing that is done is lost.
    """
    require_each("cells", cells, Cell)
    require_type("store", store, CellStore, str, Path)
    limits = limits or Limits()
    for number, cell in enumerate(cells):
        if number == 0 or cell.scenario.scheduler != cells[number - 1].scenario.scheduler:
            require_scheduler(cell.scenario.scheduler)
    store = store if isinstance(store, CellStore) else CellStore(store)
    found = {cell.key: _known(cell, store) for cell in cells}
    todo: dict[str, Cell] = {}
    for cell in cells:
        old = found[cell.key]
        failure = None if old is None else old.failure
        if old is None or (
            failure is not None and (retry_failed or failure.may_change(limits, old.limits))
        ):
            todo.setdefault(cell.key, cell)
    begun = time.monotonic()
    cached = len(found) - len(todo)

    def tell() -> None:
        if progress is not None:
            ready = [one for key, one in found.items() if one is not None and key not in todo]
            bad = sum(one.failure is not None for one in ready)
            seconds = time.monotonic() - begun
            progress(Progress(len(found), len(ready) - bad, bad, cached, seconds))

    tell()
    if todo:
        for key, outcome in _outcomes(list(todo.values()), on or default_on(), limits):
            cell = todo.pop(key)
            if isinstance(outcome, Failure) or MISSED not in outcome.files:
                cell = cell.whole
            store.drop(cell.key)
            found[key] = store.put(cell, outcome, limits)
            tell()
    results = [found[cell.key] for cell in cells]
    return [one for one in results if one is not None]


def _known(cell: Cell, store: CellStore) -> Found | None:
    """Return the cached result of a cell; of one run for an SLO, preferably the whole replay."""
    whole = store.find(cell.whole.key)
    if cell.slo is None or (whole is not None and whole.failure is None):
        return whole
    return store.find(cell.key) or whole


def _order(cell: Cell, limits: Limits) -> Order:
    files = tuple((path, read_bytes(path, LINES_BYTES, unpack=False)) for path in cell.files)
    return Order(cell.key, cell.scenario.to_toml(), files, cell.keep, limits, cell.slo)


def _outcomes(
    cells: Sequence[Cell], on: str, limits: Limits
) -> Iterator[tuple[str, Done | Failure]]:
    """Yield outcomes with their keys as they come; a lost worker is an outcome as well."""
    orders = [_order(cell, limits) for cell in cells]
    worker.STOP.clear()
    with executor(on) as (pool, _):
        waiting: dict[Future[Done | Failure], str] = {}
        try:
            for order in orders:
                waiting[pool.submit(worker.work, order)] = order.key
            for future in as_completed(waiting):
                yield waiting[future], _result(future)
        except RuntimeError as error:  # the executor accepts no more calls
            rule = f"{on!r} gave up ({' '.join(str(error).split())[:200]})"
            raise InputError(rule, field=FIELD) from error
        finally:
            worker.STOP.set()
            for future in waiting:
                future.cancel()


def _result(future: Future[Done | Failure]) -> Done | Failure:
    try:
        return future.result()
    except Exception as error:  # the executor's: its worker or scheduler died
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Failure("lost", None, text)


def shown_progress(quiet: bool) -> AbstractContextManager[Callable[[Progress], None] | None]:
    """Show a bar on a terminal, a line now and then and at the end elsewhere; on stderr."""
    return stderr_progress(
        "cell",
        lambda now: (
            now.done + now.failed,
            now.cells,
            f"{now.what}, {now.failed} failed, {now.cached} cached",
        ),
        str,
        quiet=quiet,
        always=lambda now: now.done + now.failed == now.cells > now.cached,
    )
