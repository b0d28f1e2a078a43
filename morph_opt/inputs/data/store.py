"""Location of data sets on this machine, and their download."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from morph_opt.core.domain import InputError
from morph_opt.inputs.data.archive import blob_id, is_unpacked, sha256_of, unpack
from morph_opt.inputs.data.datasets import Dataset, dataset

if TYPE_CHECKING:
    import pooch

DATA_VARIABLE = "MORPH_OPT_DATA"
"""Environment variable that names a folder with one sub-folder per data set."""

CACHE_VARIABLE = "MORPH_OPT_CACHE"
"""Environment variable that names the folder for fetched data sets."""


def cache_folder() -> Path:
    """Return the folder of fetched data sets."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    # With all that downloads need; most commands never ask for it.
    import pooch

    return Path(pooch.os_cache("morph-opt"))


def find(name: str, needed: str | None = None) -> Path | None:
    """Return the root of a data set on this machine; None if it is not here.

    ``$MORPH_OPT_DATA/<name>`` comes first and is taken as it is (users may work on changed
    copies) if it has the file that is ``needed``; a fetched one counts only when all its files are
    there with the right checksums.

    Raises
    ------
    InputError
        If there is no data set of that name.
    """
    chosen = dataset(name)
    own = os.environ.get(DATA_VARIABLE)
    if own and (Path(own) / name / (needed or "")).exists():
        return Path(own) / name
    fetched = _fetched_root(chosen)
    return fetched if not _missing(chosen, fetched) else None


def locate(name: str, needed: str | None = None) -> Path:
    """Return the root of a data set, with the file that is ``needed`` below it.

    Raises
    ------
    InputError
        If it is not here; the error names the two ways to get it.
    """
    found = find(name, needed)
    if found is not None:
        return found
    own = os.environ.get(DATA_VARIABLE)
    what = "that folder" if needed is None else f"{name}/{needed}"
    tried = f" (it is {own!r}, without {what})" if own else " (it is not set)"
    raise InputError(
        f"the data set is not on this machine: set {DATA_VARIABLE} to a folder that contains "
        f"{name}/{tried}, or run: python -m morph_opt.data fetch {name}",
        field=f"data set {name}",
    )


def is_published(name: str, files: Iterable[Path]) -> bool:
    """Return whether each file has the pinned checksum of a file of a data set.

    What was taken out of a verified archive counts as published where it was fetched to.

    Raises
    ------
    InputError
        If there is no data set of that name.
    """
    chosen = dataset(name)
    root = _fetched_root(chosen)
    unpacked = {
        root / path
        for members in chosen.members.values()
        if is_unpacked(root, members)
        for path in members
    }
    return all(
        file in unpacked
        or sha256_of(file) in chosen.sha256.values()
        or (bool(chosen.blobs) and blob_id(file) in chosen.blobs.values())
        for file in files
    )


def fetch(name: str, *, base_url: str | None = None) -> Path:
    """Download missing files of a data set into the cache, and verify every file.

    Parameters
    ----------
    name
        Data set.
    base_url
        A mirror with the same files, instead of the publisher's pinned address.

    Returns
    -------
    Path
        Root of the data set.

    Raises
    ------
    InputError
        If the data set is unknown, the network or the address does not answer, a file differs
        from its checksum, or the cache cannot be written. No wrong file is kept.
    """
    import pooch

    chosen = dataset(name)
    root = _fetched_root(chosen)
    url = (base_url or chosen.base_url).rstrip("/") + "/"
    pooch.get_logger().setLevel(logging.WARNING)  # not of the logging tree: no name finds it
    registry: dict[str, str | None] = {**chosen.sha256, **dict.fromkeys(chosen.blobs)}
    keeper = pooch.create(path=root, base_url=url, registry=registry)
    for path in chosen.files:
        if is_unpacked(root, chosen.members.get(path, {})):
            continue
        if path in chosen.blobs and not _is_right(chosen, root, path):
            (root / path).unlink(missing_ok=True)  # what has no SHA-256 would be kept as it is
        _fetch_one(keeper, chosen, path, url)
        if not _is_right(chosen, root, path):
            (root / path).unlink()
            raise _other_content(chosen, path, url)
        if path in chosen.members:
            unpack(root / path, root, chosen.members[path])
            (root / path).unlink()
    return root


def _other_content(chosen: Dataset, path: str, url: str) -> InputError:
    what = "git blob id" if path in chosen.blobs else "SHA-256"
    return InputError(
        f"differs from its {what} and was not kept; the address serves other content than "
        "the pinned commit",
        file=url + path,
    )


def _fetch_one(keeper: pooch.Pooch, chosen: Dataset, path: str, url: str) -> None:
    """Download one file with its checksum."""
    try:
        keeper.fetch(path)
    except PermissionError as error:
        rule = f"cannot be written: {error.strerror}; set {CACHE_VARIABLE} to a folder that can"
        raise InputError(rule, file=str(keeper.path)) from None
    except OSError as error:
        raise InputError(
            f"cannot be fetched ({type(error).__name__}); check the network, give a mirror with "
            f"--base-url, or put a copy of the repository under ${DATA_VARIABLE}",
            file=url + path,
        ) from None
    except ValueError:
        raise _other_content(chosen, path, url) from None


def _fetched_root(chosen: Dataset) -> Path:
    """Return the cache folder of one commit, so that two pins never share files."""
    return cache_folder() / f"{chosen.name}-{chosen.commit[:12]}"


def _missing(chosen: Dataset, root: Path) -> list[str]:
    """Return files that are absent from a fetched copy or differ from their checksum."""
    return [
        path
        for path in chosen.files
        if not is_unpacked(root, chosen.members.get(path, {})) and not _is_right(chosen, root, path)
    ]


def _is_right(chosen: Dataset, root: Path, path: str) -> bool:
    """Return whether a file exists and has the pinned checksum."""
    file = root / path
    if not file.is_file():
        return False
    if path in chosen.blobs:
        return blob_id(file) == chosen.blobs[path]
    return sha256_of(file) == chosen.sha256[path]
