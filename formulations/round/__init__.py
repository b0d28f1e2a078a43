"""One round as values: tables, options, checks of a choice, and decoding."""
