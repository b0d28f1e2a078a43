"""A finished run as what can be drawn: which jobs held which GPUs, states of nodes, counts.

Everything here is a function of a run folder (event log, jobs, rounds, config); reports, exports
and pictures draw from it and so cannot tell different stories.
"""
