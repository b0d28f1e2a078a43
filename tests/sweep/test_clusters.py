"""Sweeps on real clusters of two worker processes: the same table, byte for byte."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import pytest

from morph_opt.core.domain import InputError
from morph_opt.sweep import driver
from morph_opt.sweep.cli import main
from morph_opt.sweep.executors import executor
from tests.waiting import until

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"

SPEC = """
[fixed]
trace = "naive"
until_s = 300.0

[axes]
policy = ["fifo", "srtf"]
"""


@contextmanager
def dask() -> Iterator[str]:
    """Two worker processes on this machine, by the address of their scheduler."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as cluster:
        yield f"dask:{cluster.scheduler_address}"


@contextmanager
def ray() -> Iterator[str]:
    """A cluster of two workers, which begins and ends with the executor."""
    reason = "Ray is 240 MB, so it is in no set of packages but [ray]"
    pytest.importorskip("ray", reason=reason)
    try:
        with mock.patch.object(sys, "path", [str(HOW_TO), *sys.path]):
            yield "on_ray:executor"
    except InputError as error:
        if "node timed out" not in error.rule:
            raise
        pytest.skip(f"this machine is too busy for Ray to start: {error.rule}")


def _pid(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_the_example_of_an_executor_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HOW_TO))
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    with (
        pytest.raises(InputError, match=r"^on: needs Ray: pip install"),
        executor("on_ray:executor"),
    ):
        raise AssertionError("there is no executor")


@pytest.mark.parametrize("cluster", [dask, ray])
def test_two_worker_processes_give_the_table_of_this_machine(
    cluster: Callable[[], AbstractContextManager[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    project_root: Path,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project_root))
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text(SPEC)
    words = ["run", "sweep.toml", "--quiet", "--out"]
    with cluster() as on, executor(on) as (pool, _):
        pids: set[int] = set()

        def both() -> bool:
            """Whether each worker has had a turn: one that starts late has none in the first."""
            pids.update(one.result() for one in [pool.submit(_pid, 1.0) for _ in range(2)])
            return len(pids) == 2

        until(both)
        assert os.getpid() not in pids
        # The same workers, as a cluster takes long to start.
        monkeypatch.setattr(driver, "executor", lambda on: nullcontext((pool, 0)))
        assert main([*words, "there", "--on", on]) == 0
        monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(project_root))
    assert main([*words, "here", "--on", "tests.sweep.poison:Inline"]) == 0
    assert Path("there/results.csv").read_bytes() == Path("here/results.csv").read_bytes()
    assert "srtf" in Path("here/results.csv").read_text()
