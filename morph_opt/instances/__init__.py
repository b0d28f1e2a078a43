"""The instance library: rounds as files, the best that is known of them, and a checker."""

from morph_opt.instances.checking import Verdict, check_solution
from morph_opt.instances.library import Instance, default_folder, load, read_table

__all__ = ["Instance", "Verdict", "check_solution", "default_folder", "load", "read_table"]
