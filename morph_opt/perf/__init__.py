"""How fast a model trains in a configuration, and whether it fits."""
