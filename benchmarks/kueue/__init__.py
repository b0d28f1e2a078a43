"""Kueue's scheduler held against cases of its own tests."""
