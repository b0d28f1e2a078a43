"""What a part of a file of published cases is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.published.cases import Case, Difference, NotRun, differences
from morph_opt.inputs.data.datasets import DATASETS
from morph_opt.inputs.data.store import DATA_VARIABLE, find

Document = Mapping[str, Any]


def listed(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Items of a list with their places in the file."""
    if not isinstance(value, list):
        raise TypeError("must be a list of cases")
    for i, item in enumerate(value):
        yield f"{key}[{i}]", item


def same_jobs(published: Iterable[Any], ours: Iterable[Any]) -> Iterator[Difference]:
    """Whether each job of ours has one published row: what is left out is not compared."""
    yield from differences(sorted(map(str, published)), sorted(map(str, ours)), "jobs")


@dataclass(frozen=True, slots=True)
class Part:
    """How a part is taken apart and read.

    Parameters
    ----------
    items
        Places and raw cases of the value that stands under the part's key.
    read
        From place, raw case and whole document to cases; raises a `KeyError` or `ValueError`
        where the form is wrong.
    """

    items: Callable[[Any], Iterator[tuple[str, Any]]]
    read: Callable[[str, Any, Document], list[Case]]


def data_file(dataset: str, name: str) -> Path:
    """A file of a public data set.

    Raises
    ------
    NotRun
        If it is not on this machine.
    """
    own = os.environ.get(DATA_VARIABLE)
    # What nobody offers counts where a user has a copy.
    copied = Path(own) / dataset if own else None
    root = find(dataset) if dataset in DATASETS else copied
    if root is None or not (root / name).is_file():
        raise NotRun(f"needs {name} of the public data set {dataset!r} (docs/traces.md)")
    return root / name
