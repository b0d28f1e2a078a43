"""Common parts of all log formats: times, records, rows, scan and report."""
