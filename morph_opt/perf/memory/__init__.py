"""What a plan needs on each GPU and on the host, and whether that fits."""
