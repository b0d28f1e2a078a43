"""Measured speeds: only what was profiled is known."""
