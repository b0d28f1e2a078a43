"""Rounds of 64 to 65,536 GPUs: posed, decided, measured."""
