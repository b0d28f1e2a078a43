"""CP-SAT of OR-Tools, whose numbers are whole: the adapter, and scaling to integers."""
