"""Adapters of solvers through the modelling libraries pulp and cvxpy."""
