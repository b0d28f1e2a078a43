"""Controller of a running scheduler: it observes, advises, and acts where that is allowed."""
