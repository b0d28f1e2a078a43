"""Fitting: from a few profiled runs to constants, their uncertainty, and the next runs to make."""
