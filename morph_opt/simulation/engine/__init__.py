"""The event engine: it advances jobs by the truth and applies decisions, strictly checked."""
