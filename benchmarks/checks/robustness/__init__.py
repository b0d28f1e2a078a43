"""Mutated files, random option lines, kills, full disks, lying solvers and mutants of the code."""
