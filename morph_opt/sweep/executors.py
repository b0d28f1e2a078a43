"""Executors of cells: anything with the interface of `concurrent.futures.Executor`.

``local:N`` is N threads that watch a child process each. ``dask:ADDRESS`` is a running Dask cluster
(``tcp://host:8786``, ``tls://...``, or the scheduler's file), also one that dask-jobqueue started
under Slurm. ``package.module:attribute`` is a user's own executor, or a function that makes one.

Not through joblib: its Dask back end wakes nobody when a worker is lost (joblib 1.6.0).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from morph_opt.core.documents import read_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.nearest import did_you_mean
from morph_opt.core.extend import extension, made_by
from morph_opt.sweep.parameters import PROCESSES

FIELD = "--on"
_SCHEDULER = re.compile(r"(tcp|tls|ws|wss|ucx|inproc)://\S+")
_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")


def default_on() -> str:
    """Return the default executor: one process per core."""
    return f"local:{min(os.cpu_count() or 1, 9999)}"


@contextmanager
def executor(on: str) -> Iterator[tuple[Executor, int]]:
    """Open an executor; yield it and its number of parallel cells (0 if unknown).

    Raises
    ------
    InputError
        If the name means nothing, the scheduler cannot be reached or has no worker.
    """
    local = _LOCAL.fullmatch(on)
    if local:
        with ThreadPoolExecutor(int(local[1]), "cell") as threads:
            yield threads, int(local[1])
    elif on.startswith("dask:"):
        with _dask(on.removeprefix("dask:")) as found:
            yield found
    else:
        pool = _own(on)
        try:
            yield pool, 0
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _dask(address: str) -> Iterator[tuple[Executor, int]]:
    try:
        import distributed
    except ImportError as error:
        rule = "needs Dask: pip install dask distributed"
        raise InputError(rule, field=FIELD) from error
    _require_address(address)
    connect: Any = distributed.Client
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        client: Any = connect(**where, timeout=PROCESSES.connect_s, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        why = " ".join(str(error).split())[:200]
        rule = f"no Dask scheduler answers at {address!r} ({why})"
        raise InputError(rule, field=FIELD) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PROCESSES.workers_s)
        except TimeoutError as error:
            rule = f"no worker joined {address!r} within {PROCESSES.workers_s:g} s"
            raise InputError(rule, field=FIELD) from error
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        # pure=False: equal calls stay separate calls, so that a failed one can be repeated.
        pool: Executor = client.get_executor(pure=False, retries=PROCESSES.retries)
        yield pool, count


def _require_address(address: str) -> None:
    """Validate the address: Dask would hang or raise a traceback."""
    if address.endswith(".json"):
        found = read_json(address)
        named = found.get("address") if isinstance(found, dict) else None
        if not (isinstance(named, str) and _SCHEDULER.fullmatch(named)):
            rule = "must name a scheduler, such as tcp://HOST:PORT"
            raise InputError(rule, file=address, field="address")
    elif not _SCHEDULER.fullmatch(address):
        rule = f"must be dask:tcp://HOST:PORT, dask:tls://... or dask:FILE.json, got {address!r}"
        raise InputError(rule, field=FIELD)


def require_named(on: str) -> None:
    """Check an executor's name without contacting a scheduler.

    Raises
    ------
    InputError
        If it is of no form that is known, or nothing has its import path.
    """
    if on.startswith("dask:"):
        _require_address(on.removeprefix("dask:"))
    elif not _LOCAL.fullmatch(on):
        _found(on)


def _found(on: str) -> Any:
    """Import the executor that an import path or entry point names."""
    head, _, name = on.partition(":")
    named = name.rpartition(":")[2].isidentifier() and head != "local"
    found = extension("morph_opt.executors", on) if named else None
    if found is None:
        near = did_you_mean(head, ("local", "dask"))
        rule = f"must be local:N, dask:ADDRESS or package.module:executor, got {on!r}{near}"
        raise InputError(rule, field=FIELD)
    return found


def _own(on: str) -> Executor:
    found = _found(on)
    made = found
    if callable(found) and not isinstance(found, Executor):
        made = made_by(found, on, FIELD, "executor()")
    if not all(callable(getattr(made, name, None)) for name in ("submit", "shutdown")):
        kind = type(made).__name__
        raise InputError(f"{on!r} is no executor: {kind} has no submit and shutdown", field=FIELD)
    pool: Executor = made
    return pool
