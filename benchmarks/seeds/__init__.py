"""Figures and tables of the publications that the project follows, next to its own numbers."""
