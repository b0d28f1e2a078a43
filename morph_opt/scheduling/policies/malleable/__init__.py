"""Published heuristics that may change GPU counts (Morphling: plans too), as baselines."""
