"""Metrics of a replay, computed from its event log, and certified lower bounds."""
