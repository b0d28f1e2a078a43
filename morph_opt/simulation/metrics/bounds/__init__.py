"""Certified lower bounds, and the demands of a trace that they are computed from."""
