"""Views of a finished run for reports, exports and pictures: GPUs held, nodes, counts.

Each is a function of the run folder (event log, jobs, rounds, config), so all outputs agree.
"""
