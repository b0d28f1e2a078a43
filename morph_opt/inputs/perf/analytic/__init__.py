"""Analytic model: seconds per iteration from layout, architecture and fitted constants."""
