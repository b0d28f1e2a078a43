"""What a report draws: timelines, curves, and the axis of time below them."""
