"""Policies compared with equal freedom: the campaign and its page."""
