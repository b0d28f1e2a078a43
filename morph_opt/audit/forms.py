"""What an audit reads besides logs, and what it can draw."""

RUN = "run"
"""In front of a run folder of our own, as a format stands in front of a log."""
