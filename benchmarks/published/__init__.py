"""Published systems, repeated as they were published: their simulators, cases and figures."""
