"""Training speed of a model in a configuration, and whether it fits in memory."""
