"""Beside Slurm: what its powers are worth, and what turns cost."""
