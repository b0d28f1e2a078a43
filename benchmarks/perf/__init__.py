"""How well few runs predict the public tables: protocol, report, figures, memory tables."""
