"""Events of a replay, and their lines in ``events.jsonl``."""
