"""Best schedules found with hindsight: a search over plans, and their strict replay."""
