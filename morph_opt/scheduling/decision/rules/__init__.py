"""Operator's rules: optional, named demands of a cluster's owner on every round."""
