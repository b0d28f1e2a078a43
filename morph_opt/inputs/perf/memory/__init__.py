"""Memory of a plan on each GPU and on the host, and whether it fits."""
