"""A queue with a known answer: M/M/k, jobs of one GPU, no restart, rounds short against service.

``tests.plan.queue:mmk/MEAN_SERVICE_S/MEAN_GAP_S/JOBS`` is a trace source; the seed draws.
"""

from __future__ import annotations

import math
import random

from morph_opt.domain import Trace
from morph_opt.traces import LoadedTrace
from tests.engine.toys import ToySpeeds, job


def mmk(argument: str, *, seed: int) -> LoadedTrace:
    """Exponential gaps and services, by whole seconds of work."""
    service_s, gap_s, jobs = (float(part) for part in argument.split("/"))
    draw = random.Random(f"mmk/{argument}/{seed}")
    at_s, made = 0.0, []
    for k in range(int(jobs)):
        at_s += draw.expovariate(1.0 / gap_s)
        work = max(1, round(draw.expovariate(1.0 / service_s)))
        made.append(job(f"j{k}", at_s, work, model="m"))
    truth = ToySpeeds({"m": 1.0}, counts=(1,))
    return LoadedTrace(Trace.of(f"mmk-{seed}", made), truth, "twin", "an M/M/k queue")


def erlang_c(servers: int, load: float) -> float:
    """Probability that an arrival waits, with ``load`` busy servers on average."""
    if load >= servers:
        return 1.0
    b = 1.0
    for n in range(1, servers + 1):  # Erlang B by its recursion
        b = load * b / (n + load * b)
    return servers * b / (servers - load * (1.0 - b))


def mean_wait_s(servers: int, service_s: float, gap_s: float) -> float:
    """Mean wait in steady state; infinite without enough servers."""
    load = service_s / gap_s
    if load >= servers:
        return math.inf
    return erlang_c(servers, load) * service_s / (servers - load)
