"""One round as values: its tables, what may be chosen, checks of a choice, and its file form."""
