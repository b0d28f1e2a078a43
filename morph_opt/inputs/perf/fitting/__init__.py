"""Fitting of constants to a few profiled runs, with uncertainty and the next runs to make."""
