"""A queue with a known answer as a trace: ``tests.plan.queue:mmk/SERVICE_S/GAP_S/JOBS``."""

from benchmarks.planning.queue import drawn, mean_wait_s, mmk, waits_s

__all__ = ["drawn", "mean_wait_s", "mmk", "waits_s"]
