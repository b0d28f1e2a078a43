"""Rounds measured: step times, dominance, root gap, size, operator's rules."""
