"""Readers of single log formats, a file each."""
