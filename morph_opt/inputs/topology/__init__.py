"""Topology of a cluster: a networkx graph, the tables read from it, and its drawing."""
