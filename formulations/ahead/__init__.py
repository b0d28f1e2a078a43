"""Plans over slots of time, where nothing that runs is stopped: incumbents, bounds and the MIP.

``docs/formulations/plan-ahead.md`` has the mathematics.
"""
