"""The questions of planning, a module each, and what proposes their fleets."""
