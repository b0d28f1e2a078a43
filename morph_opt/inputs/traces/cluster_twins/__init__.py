"""Twins of whole clusters (Acme, Philly, Helios), drawn from published aggregates only."""
