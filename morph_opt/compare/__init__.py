"""Comparison of runs in the terminal; their page is `morph_opt.report`."""
