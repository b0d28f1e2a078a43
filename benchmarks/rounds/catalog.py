"""Every objective of the catalogue on the rounds of its own replay: who settles them, how soon."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.rounds.report import Row, Setup
from morph_opt.core.domain import RoundState, default_cluster
from morph_opt.core.table import Table
from morph_opt.inputs.traces.registry import load_trace
from morph_opt.replay.run import replay
from morph_opt.scheduling.policies.base import Decision, Policy
from morph_opt.scheduling.policies.catalog import OBJECTIVES
from morph_opt.scheduling.policies.registry import PolicyOptions, make_policy
from morph_opt.scheduling.policies.steps import STEPS, settled_text
from morph_opt.simulation.engine.config import ReplayConfig

PART = "objectives"
USD_PER_HOUR = 2.0
"""Price of a GPU, which the objective ``cost`` needs."""
SLICED = "feedback"
"""Beginning of the names of objectives whose rounds are time slices."""
SLICED_START_S = 20.0
"""Start-up seconds under these, as starts must fit into a slice."""


@dataclass
class _Timed(Policy):
    """Policy that takes the CPU time of each decision of another one."""

    inner: Policy
    cpu_ms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = self.inner.name

    @property
    def remembers(self) -> bool:
        """As the other one, so that the engine leaves out the same rounds."""
        return self.inner.remembers

    def observe(self, state: RoundState) -> None:
        """Pass the state on."""
        self.inner.observe(state)

    def decide(self, state: RoundState) -> Decision:
        """Pass the state on and note the time."""
        began = time.process_time()
        decision = self.inner.decide(state)
        self.cpu_ms.append(1e3 * (time.process_time() - began))
        return decision


def objectives(setup: Setup) -> Iterator[Row]:
    """Figures of a replay under every objective, with the default method."""
    cluster = default_cluster()
    cluster = cluster.with_prices({kind.name: USD_PER_HOUR for kind in cluster.gpu_types})
    for name in setup.objectives:
        loaded = load_trace(setup.trace)
        policy = _Timed(make_policy("milp", loaded.truth, PolicyOptions(objective=name)))
        config = ReplayConfig(until_s=setup.until_s)
        if name.startswith(SLICED):
            config = replace(config, restart_s=SLICED_START_S)
        began = time.process_time()
        result = replay(loaded.trace, cluster, policy, loaded.truth, config)
        whole_s = time.process_time() - began
        reports = [row.report for row in result.rounds]
        steps = Counter(report.step for report in reports)
        gap = max((report.gap for report in reports if report.gap == report.gap), default=0.0)
        yield Row(PART, name, "rounds", sum(steps.values()), "")
        yield Row(PART, name, "decisions", len(policy.cpu_ms), "")
        for step in STEPS:
            yield Row(PART, name, step, steps[step], "rounds")
        yield Row(PART, name, "fallback", steps[""], "rounds")
        for percent in (50, 99, 100):
            value = float(np.percentile(policy.cpu_ms, percent))
            yield Row(PART, name, f"CPU p{percent}", value, "ms")
        yield Row(PART, name, "largest gap", gap, "")
        yield Row(PART, name, "whole replay, CPU", whole_s, "s")


def table(rows: Sequence[Row]) -> str:
    """The figures with an objective a row, in markdown."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row.case, {})[row.metric] = row.value
    unit = found.get("throughput", {}).get("whole replay, CPU", float("nan"))
    body = []
    for name, of in found.items():
        settled = settled_text({step: int(of[step]) for step in STEPS}, "highs")
        settled += f", fell back {of['fallback']:.0f}" if of["fallback"] else ""
        body.append(
            (
                f"`{name}`",
                f"{of['rounds']:,.0f}",
                settled,
                *(f"{of[f'CPU p{percent}']:.1f}" for percent in (50, 99, 100)),
                f"{of['largest gap']:.1e}",
                f"{of['whole replay, CPU']:.1f}",
                f"{of['whole replay, CPU'] / unit:.1f}",
            )
        )
    head = (
        "objective", "rounds", "settled by", "CPU ms p50", "p99", "worst", "largest gap",
        "replay, CPU s", "over `throughput`",
    )  # fmt: skip
    shown = Table(head, body, align="lrlrrrrrr").to_markdown()
    missing = [f"`{name}`" for name in OBJECTIVES if name not in found]
    about = (
        "One replay each, without the start of the command, every decision timed once in CPU time. "
        "Replays follow one another, so where the load of the machine changes, so do their ratios. "
        "Of several goals a round's step is that of the last one. A round ends after 10 s of wall "
        f"clock at the latest, which on a loaded machine can leave a gap. Under `{SLICED}` "
        f"starts take {SLICED_START_S:.0f} s, so that they fit into a round."
    )
    rest = f"\n\nNot measured in this run: {', '.join(missing)}." if missing else ""
    return f"{about}\n\n{shown}{rest}"
