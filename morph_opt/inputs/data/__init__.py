"""Public data sets: location on this machine, and download with checksums."""

from morph_opt.inputs.data.datasets import DATASETS, Dataset, dataset
from morph_opt.inputs.data.store import cache_folder, fetch, find, is_published, locate

__all__ = [
    "DATASETS",
    "Dataset",
    "cache_folder",
    "dataset",
    "fetch",
    "find",
    "is_published",
    "locate",
]
