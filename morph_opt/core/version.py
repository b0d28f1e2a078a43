"""Version of the package; `pyproject.toml` and `CITATION.cff` state the same."""

__version__ = "0.1.0"
