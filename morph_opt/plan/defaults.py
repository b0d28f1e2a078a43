"""How much a question of planning tries where nothing is said."""

EXPLORATION = 20
"""Workloads that a search looks at before it names a fleet."""

MIXES = 16
"""Mixes of the MILP that are tried."""
