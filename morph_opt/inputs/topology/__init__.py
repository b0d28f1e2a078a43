"""Network of a cluster as a graph with capacities, and its command."""
