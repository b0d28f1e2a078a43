"""Cells of a sweep on Ray, by import path: ``--on on_ray:executor`` beside this file.

Ray has no `concurrent.futures.Executor` of its own; its references make futures, which is all that
one needs. Dask is the supported distributed engine; this is the example of another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import morph_opt as mo
from morph_opt.sweep.executors import FIELD
from morph_opt.sweep.parameters import PROCESSES


class RayExecutor(Executor):
    """Tasks of one CPU each on a Ray cluster; a task that loses its worker is repeated.

    Parameters
    ----------
    ray
        The module, connected.
    """

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._asked: list[Any] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task of Ray; the future has its exceptions."""
        task = self._ray.remote(num_cpus=1, max_retries=PROCESSES.retries)(fn)
        self._asked.append(task.remote(*args, **kwargs))
        future: Future[Any] = self._asked[-1].future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster; one that was started for this executor ends."""
        if cancel_futures:
            for reference in self._asked:
                self._ray.cancel(reference, force=True)
        if wait:
            self._ray.wait(self._asked, num_returns=len(self._asked))
        self._ray.shutdown()


def executor() -> RayExecutor:
    """Of the cluster that ``RAY_ADDRESS`` names, else of one that is started on this machine.

    Raises
    ------
    InputError
        If Ray is not installed, or the cluster does not answer.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise mo.InputError("needs Ray: pip install ray", field=FIELD) from error
    try:
        ray.init(
            include_dashboard=None if "RAY_ADDRESS" in os.environ else False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except Exception as error:  # Ray raises a plain one where it does not start within 30 s
        why = " ".join(str(error).split())[:200]
        raise mo.InputError(f"no Ray cluster ({why})", field=FIELD) from error
    return RayExecutor(ray)
