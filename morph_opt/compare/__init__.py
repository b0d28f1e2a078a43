"""Runs side by side in the terminal; the page of the same runs is a report."""
