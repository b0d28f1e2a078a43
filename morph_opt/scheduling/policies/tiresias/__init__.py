"""Tiresias: queues by attained service, and Gittins indices."""
