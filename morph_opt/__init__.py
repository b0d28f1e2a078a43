"""Mixed-integer optimisation of deep-learning training schedules on GPU clusters."""

__version__ = "0.1.0"
