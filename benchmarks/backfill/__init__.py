"""Recordings of a running slurmctld beside the model of `morph_opt.scheduling.backfill`."""
