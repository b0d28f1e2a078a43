"""Metrics of a finished replay, computed from its events, and certified lower bounds."""
