"""Units of time in seconds."""

HOUR_S = 3600.0
