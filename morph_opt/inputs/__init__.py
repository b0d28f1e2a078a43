"""Clusters, traces, speeds and data: the inputs that a user brings."""
