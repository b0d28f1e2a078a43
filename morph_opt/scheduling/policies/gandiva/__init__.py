"""Gandiva: time slices on whole servers, migration, growth and packing."""
