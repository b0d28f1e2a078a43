"""Drawable views of a finished run: GPUs held, states of nodes, counts.

Everything here is a function of a run folder (event log, jobs, rounds, config); reports, exports
and pictures draw from it and so cannot tell different stories.
"""
