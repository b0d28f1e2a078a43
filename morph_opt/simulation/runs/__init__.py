"""Run folder: its files, and their values."""
