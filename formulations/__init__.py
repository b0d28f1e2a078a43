"""The mathematics of a scheduling round: models, decoding and checks, without any solver.

Readers need to know optimisation, not clusters. The notation is on ``docs/formulations/round.md``;
the name of a constraint there is its name in docstrings, row names, tests and check messages.
"""
