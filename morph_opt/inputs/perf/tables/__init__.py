"""Speed models of measured configurations."""
