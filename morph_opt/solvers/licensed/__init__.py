"""Solvers that users bring themselves, with a licence or a GPU; CI cannot run them."""
