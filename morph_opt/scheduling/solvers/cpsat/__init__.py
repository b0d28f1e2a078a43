"""CP-SAT of OR-Tools, which takes integers only: the adapter, and scaling to integers."""
