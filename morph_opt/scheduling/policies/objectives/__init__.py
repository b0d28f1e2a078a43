"""Objectives of the round MILP: what they read from a snapshot and remember of earlier rounds."""
