"""From a few profiled runs to constants, their uncertainty, and the runs to make next."""
