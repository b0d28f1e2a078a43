"""What a replay tells while it runs and when it has ended."""
