"""Replays: events, the engine, metrics and run folders."""
