"""Event engine: it advances jobs at their true speeds and applies checked decisions."""
