"""Policies that crash, sleep and eat memory, and an executor of one's own: for sweeps."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from morph_opt.core.domain import RoundState
from morph_opt.scheduling.policies.base import Decision
from tests.engine.toys import Fifo


class Poisoned(Fifo):
    """First come, first served, after something bad."""

    def __init__(self, bad: Callable[[], object]) -> None:
        super().__init__()
        self._bad = bad

    def decide(self, state: RoundState) -> Decision:
        self._bad()
        return super().decide(state)


def crash(belief: object, options: object) -> Poisoned:
    del belief, options
    return Poisoned(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def slow(belief: object, options: object) -> Poisoned:
    del belief, options
    return Poisoned(lambda: time.sleep(600))


def hungry(belief: object, options: object) -> Poisoned:
    del belief, options
    return Poisoned(lambda: bytearray(1 << 40))


class Inline(Executor):
    """Runs what is submitted at once: any executor of the protocol will do."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Losing(Inline):
    """Loses every worker."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(ConnectionError("the worker is gone"))
        return future
