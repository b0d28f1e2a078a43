"""Campaigns on a real Slurm in a scratch folder: ``make live-test`` and ``make live-demo``."""
