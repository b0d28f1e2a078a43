"""Objectives of the round MILP: what they remember of earlier rounds and read from a snapshot."""
