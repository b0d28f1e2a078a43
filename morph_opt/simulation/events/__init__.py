"""The vocabulary of what happens in a replay: events, and their lines in ``events.jsonl``."""
