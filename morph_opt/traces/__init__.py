"""Traces: readers of published formats, seeded twins, and the registry of names."""
