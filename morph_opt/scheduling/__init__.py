"""Decisions: rounds, policies, shares, solvers, and what explains and checks them."""
