"""Tables and figures for README and reports, generated from run folders."""
