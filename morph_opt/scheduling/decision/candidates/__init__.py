"""Candidates of a round as columnar tables: every way in which a job could run."""
