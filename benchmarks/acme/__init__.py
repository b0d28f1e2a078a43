"""The figures of the Acme study, from its published aggregates and for any log."""
