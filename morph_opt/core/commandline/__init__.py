"""Basis of all command lines: a strict parser, and types of options with ranges."""
