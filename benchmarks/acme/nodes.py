"""Figures A2 and A10 to A15: utilisation, temperature and power, of which no job log tells."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.acme.plots import Curves, Panel, Plot, Series
from benchmarks.acme.published import CLUSTERS, published, quantile
from morph_opt.core.table import Cell, Table

_NO_LOG = "A log of jobs does not tell it: published quantiles only."
TDP_W = 400.0


def _series(name: str, curve: str, divide_by: float = 1.0) -> Series:
    table = published()
    return Series(name, [v / divide_by for v in table["curves"][curve]], table["levels"])


def _medians(curves: Sequence[tuple[str, str]], extra: Sequence[Sequence[Cell]] = ()) -> Table:
    rows: list[Sequence[Cell]] = [
        (name, quantile(curve, 50), quantile(curve, 90), quantile(curve, 100))
        for name, curve in curves
    ]
    header = ("curve", "median", "90 %", "maximum")
    return Table(header, [*rows, *extra], formats=dict.fromkeys(header[1:], ",.1f"))


def utilisation() -> Plot:
    """A2."""
    curves = [(CLUSTERS[n], f"gpu_util_{n}") for n in ("seren", "kalos", "philly")]
    pai = published()["gpu_util_pai"]
    points = Series("PAI (digitised)", pai["percent_util"], pai["percent_samples"], points=True)
    series = [*(_series(name, curve) for name, curve in curves), points]
    panel = Curves("GPU utilisation", "utilisation (%)", "samples (%)", series)
    notes = (
        "PAI: 74 points that somebody read off a printed figure and that fall 19 times; some are "
        "drawn, and no median is claimed.",
        _NO_LOG,
    )
    return Plot("A2", "GPU utilisation", (panel,), notes, _medians(curves))


def _pairs(*what: tuple[str, str, str]) -> tuple[tuple[Panel, ...], Table]:
    """A panel for each (title, axis, curve without its cluster)."""
    panels: list[Panel] = []
    named = []
    for title, axis, curve in what:
        own = [(CLUSTERS[n], f"{curve}_{n}") for n in ("seren", "kalos")]
        series = [_series(name, one) for name, one in own]
        panels.append(Curves(title, axis, "samples (%)", series))
        named += [(f"{title}, {name}", one) for name, one in own]
    return tuple(panels), _medians(named)


def activity() -> Plot:
    """A10."""
    panels, table = _pairs(
        ("SM activity", "%", "sm"), ("tensor activity or occupancy", "%", "tensor")
    )
    curves = published()["curves"]
    same = all(curves[f"pair4_{n}"] == curves[f"tensor_{n}"] for n in ("seren", "kalos"))
    notes = (
        "The notebook says occupancy where its legend says tensor core"
        + (", and pairs 4 and 5 of the files are equal" if same else "")
        + ": one of the two is unknown.",
        _NO_LOG,
    )
    return Plot("A10", "SM and tensor activity", panels, notes, table)


def memory() -> Plot:
    """A11."""
    panels, table = _pairs(
        ("CPU", "%", "cpu"), ("host memory", "%", "host_memory"), ("GPU memory", "%", "gpu_memory")
    )
    above = published()["above"]["cpu_kalos"]
    notes = (
        f"Kalos' CPU exceeds 100 % in {above:.1f} % of the samples (up to "
        f"{quantile('cpu_kalos', 100):.1f} %).",
        _NO_LOG,
    )
    return Plot("A11", "Memory and CPU", panels, notes, table)


def network() -> Plot:
    """A12."""
    both = [("send", "ib_send_seren"), ("receive", "ib_receive_seren")]
    series = [_series(name, curve, quantile(curve, 100) / 100.0) for name, curve in both]
    panel = Curves("Seren", "% of the maximum", "samples (%)", series)
    notes = (
        "Over half the samples are 0. In percent of the largest sample, not of the link.",
        _NO_LOG,
    )
    return Plot("A12", "Network", (panel,), notes, _medians(both))


def temperature() -> Plot:
    """A13."""
    panels, table = _pairs(
        ("GPU core", "deg C", "core_temp"), ("GPU memory", "deg C", "memory_temp")
    )
    return Plot("A13", "Temperature", panels, (_NO_LOG,), table)


def gpu_power() -> Plot:
    """A14."""
    curves = [(CLUSTERS[n], f"gpu_power_{n}") for n in ("seren", "kalos")]
    series = [_series(name, curve) for name, curve in curves]
    panel = Curves("", "power (W)", "samples (%)", series, line=(TDP_W, "TDP 400 W"))
    above = published()["above"]
    notes = (
        f"Above the TDP: {above['gpu_power_seren']:.1f} % and {above['gpu_power_kalos']:.1f} % of "
        "the samples.",
        _NO_LOG,
    )
    return Plot("A14", "Power of a GPU", (panel,), notes, _medians(curves))


def server_power() -> Plot:
    """A15."""
    curves = [("GPU nodes", "server_power_gpu"), ("CPU nodes", "server_power_cpu")]
    series = [_series(name, curve) for name, curve in curves]
    panel = Curves("", "power (W)", "samples (%)", series)
    return Plot("A15", "Power of a server", (panel,), (_NO_LOG,), _medians(curves))
