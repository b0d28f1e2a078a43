"""Policies: the MILP under an objective, and the baselines it is compared with."""
