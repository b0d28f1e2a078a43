"""Target shares: policies as linear programs on arrays, before anybody is placed anywhere."""
