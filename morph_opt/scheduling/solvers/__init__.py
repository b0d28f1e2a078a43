"""Solver adapters with one protocol; the only package that imports solver libraries."""
