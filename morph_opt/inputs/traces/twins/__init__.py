"""Generated twins of published workloads, and what they know of their originals."""
