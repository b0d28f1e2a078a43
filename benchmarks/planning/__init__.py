"""Planning, measured: statistics, nodes for more load, forecasts, and their pictures."""
