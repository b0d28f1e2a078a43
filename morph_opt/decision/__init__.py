"""One place that decides a round: it is posed, solved under ranked levels, and placed."""
