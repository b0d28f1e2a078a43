"""Models as text: MPS, written bit for bit and read back, and LP for people."""
