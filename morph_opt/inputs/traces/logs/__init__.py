"""Logs of clusters: readers of many formats, a linter, and jobs that a replay takes."""
