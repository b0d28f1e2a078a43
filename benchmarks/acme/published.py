"""The published aggregates, as they are committed."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

CLUSTERS = {
    "seren": "Seren", "kalos": "Kalos", "philly": "Philly", "helios": "Helios", "pai": "PAI"
}  # fmt: skip
ACME = ("seren", "kalos")
TYPES = {
    "eval": "Eval", "pretrain": "Pretrain", "sft": "SFT", "mllm": "MLLM", "debug": "Debug",
    "other": "Other",
}  # fmt: skip
"""Types that the publisher's notebook lists, as it writes them; Kalos' SFT rows it leaves out."""

RUN_S = [float(1 << k) for k in range(22)]
QUEUE_S = [float(1 << k) for k in range(16)]
SIZES = [1.0, 2.0, 4.0, 7.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]


@cache
def published() -> dict[str, Any]:
    """``published.toml``, with the clusters of the twins' ``facts.toml`` beside PAI."""
    own = resources.files(__package__).joinpath("published.toml").read_text("utf-8")
    twins = resources.files("morph_opt.inputs.traces.cluster_twins").joinpath("facts.toml")
    return tomllib.loads(twins.read_text("utf-8")) | tomllib.loads(own)


def sizes_of(cluster: str) -> list[float]:
    """Sizes of a cluster's curves; the twins say 6 for 5 to 7 GPUs, the curve is at 7."""
    return [7.0 if size == 6 else float(size) for size in published()[cluster]["sizes"]]


def types_of(cluster: str) -> dict[str, dict[str, Any]]:
    """Listed types of an Acme cluster."""
    return dict(published()[cluster]["types"])


def quantile(curve: str, percent: float) -> float:
    """Value of a published curve that so many percent of the samples do not exceed."""
    table = published()
    return float(table["curves"][curve][table["levels"].index(percent)])
