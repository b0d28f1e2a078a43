"""Client of Kubernetes; experimental."""
