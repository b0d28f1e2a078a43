"""Files of Slurm itself: configuration and lists of hosts."""
