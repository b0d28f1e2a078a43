"""Check of every placement, and the speeds of a placement."""
