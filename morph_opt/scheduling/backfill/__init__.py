"""Queues served in order with reservations by time limits: EASY, conservative and Slurm's own.

Pure functions of an instant, a queue, the free resources of nodes and the running jobs with the
latest ends that their limits allow. `morph_opt.scheduling.policies.batch` makes policies of them.
"""
