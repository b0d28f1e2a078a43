"""Code of publications in our words, defects included; none of it is installed."""
