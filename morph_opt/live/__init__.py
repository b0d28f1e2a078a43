"""Beside a real scheduler: look, say what would be done, and do it where that is allowed."""
