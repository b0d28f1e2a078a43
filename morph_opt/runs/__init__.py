"""The run folder: what a replay leaves behind, file by file."""
