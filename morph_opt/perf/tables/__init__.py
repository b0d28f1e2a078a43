"""Measured speeds: what was profiled, and nothing else, is known."""
