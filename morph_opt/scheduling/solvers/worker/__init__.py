"""Isolation of an adapter in a process of its own."""
