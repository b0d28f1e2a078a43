"""The network of a cluster as a graph with capacities; drawn and shown by command."""
