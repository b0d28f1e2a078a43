"""Explanations: why each job of a round got what it got, and which rules contradict each other."""
