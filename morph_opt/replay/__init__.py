"""The replay engine: advances jobs by the true speeds, round by round, into a run folder."""
