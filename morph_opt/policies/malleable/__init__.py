"""Published heuristics that may change GPUs (Morphling: plans too), as baselines."""
