"""Values and files, without algorithms."""
