"""Published figures, repeated by commands."""
