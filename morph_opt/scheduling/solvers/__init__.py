"""Solver adapters behind one protocol; the only room that imports solver libraries."""
