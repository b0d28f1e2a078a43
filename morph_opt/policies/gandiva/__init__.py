"""Gandiva: time slices on whole servers, moves, growth and packing."""
