"""The run folder, file by file, and its values."""
