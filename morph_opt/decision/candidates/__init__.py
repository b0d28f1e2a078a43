"""Candidates: every way in which a job of the round could run, as columnar tables."""
