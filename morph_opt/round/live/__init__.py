"""Rounds from the JSON answers of a running Slurm or Kueue instead of a snapshot."""
