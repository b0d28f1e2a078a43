"""Drawings of a report: timelines, curves, and their axis of time."""
