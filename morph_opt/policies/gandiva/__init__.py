"""Gandiva: its published simulator, its mechanisms on whole servers, packing and searches."""
