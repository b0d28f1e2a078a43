"""Gavel: the round mechanism, and the baseline that follows it in the engine."""
