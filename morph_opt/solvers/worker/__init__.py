"""Any adapter in a process of its own, which may be killed."""
