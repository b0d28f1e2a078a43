"""Solvers on equal terms: ``python -m benchmarks.solvers``; the report is in reports/solvers."""
