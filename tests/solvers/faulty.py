"""Adapters that misbehave, for the tests of the worker and of the recheck."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

import numpy as np

from formulations.arrays import Floats
from formulations.linear_model import LinearModel
from morph_opt.scheduling.solvers.base import Adapter, Answer, Capabilities, Clock
from morph_opt.scheduling.solvers.meaning import Meaning
from morph_opt.scheduling.solvers.outcome import Limits


class _Faulty(Adapter):
    name = "faulty"
    capabilities = Capabilities()

    def _attempt(
        self, model: LinearModel, limits: Limits, start: Floats | None, clock: Clock
    ) -> Answer:
        clock.hand_over_done()
        return self.answer(model)

    def answer(self, model: LinearModel) -> Answer:
        raise NotImplementedError


class Crashing(_Faulty):
    """Dies of a segmentation fault."""

    def answer(self, model: LinearModel) -> Answer:
        ctypes.string_at(0)
        raise AssertionError("unreachable")


class Killed(_Faulty):
    """Is killed from outside, as by the kernel when memory runs out."""

    def answer(self, model: LinearModel) -> Answer:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


class Hanging(_Faulty):
    """Ignores its time limit."""

    def answer(self, model: LinearModel) -> Answer:
        while True:
            time.sleep(1.0)


class Hungry(_Faulty):
    """Takes memory without end, and aborts as C++ does."""

    def answer(self, model: LinearModel) -> Answer:
        kept = []
        try:
            while True:
                kept.append(np.ones(2**20))
        except MemoryError:
            kept.clear()
            print("terminate called after throwing 'std::bad_alloc'", file=sys.stderr, flush=True)
            os.abort()


class Polite(_Faulty):
    """Takes memory without end, and says so."""

    def answer(self, model: LinearModel) -> Answer:
        kept = []
        while True:
            kept.append(np.ones(2**20))


class Chatty(_Faulty):
    """Prints to stdout, which must not harm the pipe."""

    def answer(self, model: LinearModel) -> Answer:
        print("x" * 100_000, flush=True)
        return Answer(Meaning.PROVED, "chatty", np.zeros(model.columns), 0.0)


class Throwing(_Faulty):
    """Raises what nobody expects."""

    def answer(self, model: LinearModel) -> Answer:
        raise RuntimeError("no such luck")


class Lying(_Faulty):
    """Says optimal and hands out a point that violates every row."""

    def answer(self, model: LinearModel) -> Answer:
        x = np.full(model.columns, 1e6)
        return Answer(Meaning.PROVED, "liar", np.minimum(x, model.column_upper), 1e9)


class Pessimist(_Faulty):
    """Calls everything infeasible."""

    def answer(self, model: LinearModel) -> Answer:
        return Answer(Meaning.INFEASIBLE, "pessimist")


class Optimist(_Faulty):
    """Calls everything unbounded."""

    def answer(self, model: LinearModel) -> Answer:
        return Answer(Meaning.UNBOUNDED, "optimist")


class Missing:
    """Is no adapter: importing the library fails when it is made."""

    def __init__(self) -> None:
        raise ImportError("libmissing.so: cannot open shared object file")
