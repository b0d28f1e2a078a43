"""Target shares: policies as linear programs on arrays, before any placement."""
