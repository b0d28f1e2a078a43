"""Pose a round, solve it under ranked levels, and place its jobs on GPUs."""
