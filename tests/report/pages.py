"""Reading a report back: its parts, its packed documents, and pages of awkward runs."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import numpy as np
import numpy.typing as npt


class Cells(HTMLParser):
    """Texts of the cells of every table, by row; the tables' order is the page's."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.tables[-1][-1][-1] += data


def tables_of(page: str) -> list[list[list[str]]]:
    """Every table of a page."""
    parser = Cells()
    parser.feed(page)
    return parser.tables


def unpacked(page: str, name: str) -> Any:
    """A document of the page."""
    (text,) = re.findall(rf'<script type="text/plain" id="{name}-data"[^>]*>([^<]*)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(text)))


def models(value: Any) -> Iterator[dict[str, Any]]:
    """Every model in a document, with its attributes."""
    if isinstance(value, dict):
        if value.get("type") == "object" and "attributes" in value:
            yield value
        for item in value.values():
            yield from models(item)
    elif isinstance(value, list):
        for item in value:
            yield from models(item)


def source(document: Any, name: str) -> dict[str, Any]:
    """Columns of the data source of that name."""
    (found,) = (
        model["attributes"]
        for model in models(document)
        if model["name"] == "ColumnDataSource" and model["attributes"].get("name") == name
    )
    return {key: column(value) for key, value in found["data"]["entries"]}


def column(value: Any) -> npt.NDArray[Any] | list[Any]:
    """A column of a data source: Bokeh has arrays as compressed bytes."""
    if not isinstance(value, dict):
        return list(value)
    data = value["array"]["data"]
    raw = gzip.decompress(base64.b64decode(data))
    return np.frombuffer(raw, dtype=value["dtype"]).reshape(value["shape"])
