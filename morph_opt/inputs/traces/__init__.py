"""Traces: readers of published ones, generated twins, and the registry of their names."""
