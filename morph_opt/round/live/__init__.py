"""Rounds from what a scheduler answers now: Slurm's and Kueue's JSON instead of a snapshot."""
