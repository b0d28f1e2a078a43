"""The mathematics of a scheduling round: models, decoding and checking, without any solver.

Someone who knows optimisation and nothing of clusters can read this package. The notation is on
``docs/formulations/round.md``; the word for a constraint there is the word in docstrings, row
names, tests and check messages.
"""
