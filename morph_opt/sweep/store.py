"""Cache of cells: a folder per cell, renamed into place whole, so that drivers can share it."""

from __future__ import annotations

import errno
import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from morph_opt.core.documents import LINES_BYTES, Fields, exists, names_of, read_bytes, read_json
from morph_opt.core.domain import InputError
from morph_opt.core.domain.arguments import require_type
from morph_opt.simulation.runs.write import SUMMARY
from morph_opt.sweep.cell import SCHEMA, Cell, key_of
from morph_opt.sweep.order import MISSED, Done, Failure, Limits

CELL, FAILURE, TIMES, DIGESTS = "cell.json", "failure.json", "times.json", "digests.json"


@dataclass(frozen=True, slots=True)
class Found:
    """Cached cell.

    Parameters
    ----------
    key, folder
        Key and folder of the cell.
    failure
        Reason why it has no result; None if it has one.
    limits
        Limits under which it failed.
    """

    key: str
    folder: Path
    failure: Failure | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def missed(self) -> Mapping[str, Any] | None:
        """Content of ``missed.json`` (`MissedError.to_json`); None if there is none.

        Raises
        ------
        InputError
            See `file`.
        """
        if self.failure is not None or not exists(self.folder / MISSED):
            return None
        found: dict[str, Any] = read_json(self.file(MISSED))
        return found

    @property
    def summary(self) -> Mapping[str, Any]:
        """Content of ``summary.json``; empty if the cell failed.

        Raises
        ------
        InputError
            If the file is damaged, or not what the replay wrote.
        """
        if self.failure is not None:
            return {}
        value = read_json(self.file(SUMMARY))
        if not isinstance(value, dict):
            raise InputError("must be an object", file=str(self.folder / SUMMARY))
        return value

    def file(self, name: str) -> Path:
        """Return the path of a file of the replay, after checking its digest.

        Raises
        ------
        InputError
            If the file was changed: a table or an answer would rest on what nobody replayed.
        """
        path, digests = self.folder / name, self.folder / DIGESTS
        known = read_json(digests) if exists(digests) else None
        if not isinstance(known, dict) or not isinstance(known.get(name), str):
            rule = f"has no digest of {name}: of another version, or damaged; it is left unchanged"
            raise InputError(rule, file=str(digests))
        if digest_bytes(read_bytes(path, LINES_BYTES, unpack=False)) != known[name]:
            rule = "is not what the replay wrote; remove its folder to have the cell run again"
            raise InputError(rule, file=str(path))
        return path

    @property
    def times(self) -> Mapping[str, Any]:
        """Wall time in seconds, host and number of attempts."""
        value = read_json(self.folder / TIMES)
        return value if isinstance(value, dict) else {}


class CellStore:
    """Cache of results by key.

    Parameters
    ----------
    folder
        Folder that holds ``cells/ab/KEY``; made when needed.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(require_type("folder", folder, str, Path))
        if exists(self.folder) and not self.folder.is_dir():
            raise InputError("is a file, not a folder", file=str(folder))

    def _place(self, key: str) -> Path:
        return self.folder / "cells" / key[:2] / key

    def find(self, key: str) -> Found | None:
        """Return the cached cell of a key; None if there is none.

        Raises
        ------
        InputError
            If the folder is not the cell of its name: of another version, or damaged.
        """
        place = self._place(key)
        if not place.is_dir():
            return None
        name = place / CELL
        document = read_json(name) if exists(name) else None
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            rule = f"is no cell of this version ({SCHEMA}) but {schema!r}; it is left unchanged"
            raise InputError(rule, file=str(name), field="schema")
        if not isinstance(document, dict) or key_of(document) != key:
            rule = "does not match the key in its folder's name: damaged, or of another cell"
            raise InputError(f"{rule}; it is left unchanged", file=str(name))
        if exists(place / SUMMARY) or exists(place / MISSED):
            return Found(key, place)
        return self._failed(key, place)

    def _failed(self, key: str, place: Path) -> Found:
        file = place / FAILURE
        if not exists(file):
            raise InputError("has neither a summary nor a failure", file=str(place))
        read = Fields(read_json(file), "", str(file), (*names_of(Failure), "limits"))
        limits = read.object("limits", names_of(Limits)).make(Limits)
        return Found(key, place, read.make(Failure), limits)

    def put(self, cell: Cell, outcome: Done | Failure, limits: Limits) -> Found:
        """Keep a result: an earlier result stays, an earlier failure is replaced.

        Parameters
        ----------
        cell, outcome
            Cell, and how it ended.
        limits
            Limits under which it ran.

        Raises
        ------
        OSError
            If the folder cannot be written.
        """
        place = self._place(cell.key)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / "cells" / f".{secrets.token_hex(12)}.tmp"
        temporary.mkdir()
        try:
            self._fill(temporary, cell, outcome, limits)
            if isinstance(outcome, Done) and exists(place / FAILURE):
                old = temporary.with_suffix(".old")
                with suppress(FileNotFoundError):
                    place.rename(old)
                shutil.rmtree(old, ignore_errors=True)
            try:
                temporary.rename(place)
            except OSError as error:
                # Another driver was faster; its bytes are the same.
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        found = self.find(cell.key)
        assert found is not None
        return found

    def _fill(self, folder: Path, cell: Cell, outcome: Done | Failure, limits: Limits) -> None:
        def write(name: str, data: bytes) -> None:
            (folder / name).write_bytes(data)

        write(CELL, _json(cell.identity))
        if isinstance(outcome, Failure):
            write(FAILURE, _json(asdict(outcome) | {"limits": asdict(limits)}))
            return
        about = {"wall_s": outcome.wall_s, "host": outcome.host, "attempts": outcome.attempts}
        write(TIMES, _json(about))
        write(DIGESTS, _json({name: digest_bytes(data) for name, data in outcome.files.items()}))
        for name, data in outcome.files.items():
            write(name, data)

    def drop(self, key: str) -> None:
        """Remove a failure, so that the cell is run again."""
        place = self._place(key)
        if exists(place / FAILURE):
            shutil.rmtree(place)


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
