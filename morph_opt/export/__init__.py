"""Exports of a finished run: traces for a timeline viewer, Batsim's tables, tidy tables."""
