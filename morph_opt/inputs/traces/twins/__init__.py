"""Generated twins of published workloads, and statistics of their originals."""
