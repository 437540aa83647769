"""Measurements, and what follows from them: medians, ratios to the floor, growth over the cases."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.lab import Metrics
from bench.scenarios import Scenario
from bench.systems import FLOOR


@dataclass(frozen=True)
class Key:
    """What was measured."""

    scenario: str
    case: str
    system: str


@dataclass(frozen=True)
class Failure:
    """A system that did not get through a scenario, or did not even get installed."""

    system: str
    scenario: str | None
    reason: str


@dataclass
class Results:
    """Every sample of a run, by repeat."""

    samples: dict[Key, dict[int, Metrics]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def add(self, key: Key, repeat: int, metrics: Metrics) -> None:
        """Keep one measurement."""
        self.samples.setdefault(key, {})[repeat] = metrics

    def median(self, key: Key, metric: str) -> float | None:
        """The median over the repeats."""
        values = [metrics[metric] for metrics in self.samples.get(key, {}).values() if metric in metrics]
        return statistics.median(values) if values else None

    def ratio(self, key: Key, base: Key, metric: str) -> float | None:
        """The median of the ratios within each repeat: what slows the whole machine down cancels out."""
        others = self.samples.get(base, {})
        ratios = [
            metrics[metric] / others[repeat][metric]
            for repeat, metrics in self.samples.get(key, {}).items()
            if metric in metrics and others.get(repeat, {}).get(metric)
        ]
        return statistics.median(ratios) if ratios else None

    def rows(self, scenario: Scenario) -> Iterable[dict[str, Any]]:
        """One row per case and system, with all metrics and both comparisons."""
        keys = [key for key in self.samples if key.scenario == scenario.name]
        cases = list(dict.fromkeys(key.case for key in keys))
        for key in keys:
            names = dict.fromkeys(name for metrics in self.samples[key].values() for name in metrics)
            row: dict[str, Any] = {
                **asdict(key),
                "repeats": len(self.samples[key]),
                "median": {name: self.median(key, name) for name in names},
                "to_floor": self.ratio(key, floor := Key(key.scenario, key.case, FLOOR), scenario.metric),
                "server_cpu_to_floor": self.ratio(key, floor, "server_cpu_us"),
                "samples": {
                    name: [m[name] for m in self.samples[key].values() if name in m] for name in names
                },
            }
            if scenario.compares_cases:
                first = Key(key.scenario, cases[0], key.system)
                row["to_base"] = row["median"].pop("to_reference", None) or self.ratio(
                    key, first, scenario.metric
                )
                row["server_cpu_to_base"] = self.ratio(key, first, "server_cpu_us")
            yield row
