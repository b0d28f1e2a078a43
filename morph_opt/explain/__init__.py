"""Explanations of a finished run: why a job waited, or got its allocation."""
