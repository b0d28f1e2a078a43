"""Jobs of the comparison: how they arrive, scale, and what their users say of them."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass
from typing import Any

SIZES = (1, 1, 2, 4, 8, 8, 16)
SCALING = 0.8
RESTART_S = 20.0
REPORTED = "reported"
"""Belief of jobs whose users' words are wrong, and which report what is left."""
PACE = 20.0
"""Seconds of the comparison in one beside a real Slurm."""
ARMS: dict[str, tuple[str, ...]] = {
    "FIFO": (), "backfill": (), "order": ("order",), "+ placement": ("placement",),
    "+ shape": ("placement", "shape"), "+ stops": ("placement", "shape", "stops"),
}  # fmt: skip
"""Who decides, with the powers of the controller; none: Slurm alone."""
SETTINGS: dict[str, Any] = {
    "restart_s": RESTART_S, "margin": 1.5, "minimum_run_s": 120.0, "restarts_per_hour": 4,
    "stops_per_turn": 8, "stops_per_hour": 1000, "stop_needs": "word", "speeds": "speeds.json",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """A job: when it comes, GPUs that it asks for, seconds on them, time limit, its comment."""

    at_s: float
    gpus: int
    work_s: float
    limit_s: float
    words: str

    @property
    def nodes(self) -> int:
        """Nodes that it asks for."""
        return 2 if self.gpus == 16 else 1


def drawn(seed: int, count: int, load: float, belief: str, pace: float = 1.0) -> list[Drawn]:
    """Jobs of 1 to 16 GPUs and half a minute to an hour on 64 GPUs.

    Parameters
    ----------
    load
        Work that arrives, as a share of what the cluster can do.
    belief
        What users say of the duration: what it is, that times a lognormal factor (of `REPORTED`
        too), or nothing, so that the time limit stands for it.
    pace
        Times as fast as that; time limits are whole minutes all the same.
    """
    draw, estimates = random.Random(seed), random.Random(seed + 1000)
    at_s, found = 0.0, []
    mean_gpu_s = statistics.mean(SIZES) * 300.0 * math.exp(0.5 * 0.8**2)
    for _ in range(count):
        at_s += draw.expovariate(load * 64.0 / mean_gpu_s)
        work_s = min(3600.0, max(30.0, draw.lognormvariate(math.log(300.0), 0.8)))
        times = draw.uniform(1.2, 4.0)
        gpus = draw.choice(SIZES)
        # A scheduler ends a job at its limit, which must do for the fewest GPUs that it may have.
        longest_s = work_s * (gpus / max(1, gpus // 2)) ** SCALING
        limit_s = 60.0 * math.ceil(longest_s * times / pace / 60.0)
        work_s /= pace
        wrong = estimates.lognormvariate(0.0, 0.5)
        estimated_s = work_s if belief == "exact" else work_s * wrong
        words = f"morph checkpoint model=net{gpus} plan=dp gpus={max(1, gpus // 2)}-"
        words += f"{min(16, 2 * gpus)}"
        if belief != "unknown":
            words += f" iterations={max(1, round(estimated_s))}"
        found.append(Drawn(at_s / pace, gpus, work_s, limit_s, words))
    return found


def speeds() -> dict[str, Any]:
    """Speeds of the models: one iteration a second on what is asked for."""
    rows = []
    for asked in sorted(set(SIZES)):
        for gpus in (1, 2, 4, 8, 16):
            shape = str(gpus) if gpus <= 8 else "8+8"
            rows.append(
                {
                    "model": f"net{asked}",
                    "node_type": "a800-x8",
                    "shape": shape,
                    "plan": "dp",
                    "iteration_s": (asked / gpus) ** SCALING,
                }
            )
    return {"schema": "morph-opt/speeds/1", "rows": rows}
