"""A queue with a known answer: M/M/k, first come, first served, that starts jobs at boundaries.

Erlang's formula is of the queue without boundaries. What the engine replays is `waits_s`, to the
second; ``tests/plan`` holds both against each other.
"""

from __future__ import annotations

import heapq
import math
import random

from morph_opt.core.domain import Trace
from morph_opt.inputs.perf.tables.gangs import Gang, GangTable
from morph_opt.inputs.traces.format import LoadedTrace


def drawn(service_s: float, gap_s: float, jobs: int, seed: int) -> list[tuple[float, int]]:
    """Arrivals and whole seconds of work, exponential both."""
    draw = random.Random(f"mmk/{service_s:g}/{gap_s:g}/{jobs}/{seed}")
    at_s, found = 0.0, []
    for _ in range(jobs):
        at_s += draw.expovariate(1.0 / gap_s)
        found.append((at_s, max(1, round(draw.expovariate(1.0 / service_s)))))
    return found


def mmk(argument: str, *, seed: int) -> LoadedTrace:
    """A trace source: ``benchmarks.planning.queue:mmk/SERVICE_S/GAP_S/JOBS``, jobs of one GPU."""
    service_s, gap_s, jobs = (float(part) for part in argument.split("/"))
    work = drawn(service_s, gap_s, int(jobs), seed)
    gang = Gang(1, "queue")
    made = [gang.job(f"j{k}", at_s, run_s) for k, (at_s, run_s) in enumerate(work)]
    return LoadedTrace(Trace.of(f"mmk-{seed}", made), GangTable([gang]), "twin", "an M/M/k queue")


def waits_s(work: list[tuple[float, int]], servers: int, interval_s: float) -> list[float]:
    """Waits; a job starts at the first boundary at which it has come and a server is free."""
    free_s = [0.0] * servers
    found = []
    for at_s, service_s in work:
        ready_s = max(at_s, heapq.heappop(free_s))
        start_s = math.ceil(ready_s / interval_s - 1e-9) * interval_s
        heapq.heappush(free_s, start_s + service_s)
        found.append(start_s - at_s)
    return found


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
