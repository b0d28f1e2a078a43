"""Kueue's scheduler: quotas, flavors, preemption, fair sharing, cycles and queues.

Functions of queues, workloads and an instant. Page: ``docs/kueue.md``.
"""
