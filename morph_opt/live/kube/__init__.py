"""Beside Kubernetes; experimental."""
