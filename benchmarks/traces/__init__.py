"""Pages on public traces of clusters."""
