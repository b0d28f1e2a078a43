"""The check that every placement has to pass, and what speeds say of a placement."""
