"""Small messy rounds: are we ever behind a plain MIP?"""
