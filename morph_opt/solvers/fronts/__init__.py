"""Solvers as users of a modelling library take them; for comparison, rounds do not need them."""
