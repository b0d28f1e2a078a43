"""Tiresias: queues by attained service, in the engine and as the published simulator."""
