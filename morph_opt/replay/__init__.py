"""Replay a trace: the event engine, its run folder and its command line."""
