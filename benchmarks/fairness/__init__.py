"""Fairness measured: solve times, finish-time ratios, each policy in its own measure."""
