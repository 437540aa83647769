"""The report as one picture."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.report import Document, number
from bench.systems import FLOOR, SYSTEMS

# Scenario, which of its cases, what is drawn, and the title.
BARS = (
    ("single", 1, "to_floor", "one at a time, 4 clients (x floor)"),
    ("batch", 0, "to_floor", "batches of 100, 4 clients (x floor)"),
    ("worker", 0, "to_floor", "own worker, concurrency 16 (x raw loop)"),
    ("start", 0, "p50_ms", "creation to start, p50 (ms)"),
    ("footprint", 0, "wal_bytes", "WAL per job (bytes)"),
)
OURS, OTHERS = "#1f6feb", "#9aa4b2"


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(report: Document, path: Path) -> None:
    """Write the picture."""
    # By name: an optional package, which takes a second to import.
    import_module("matplotlib").use("Agg")
    pyplot = import_module("matplotlib.pyplot")
    scenarios = {scenario["name"]: scenario for scenario in report["scenarios"]}
    figure, axes = pyplot.subplots(2, 3, figsize=(15, 8), layout="constrained")
    for axis, (name, case, value, title) in zip(axes.flat, BARS, strict=False):
        _bars(axis, scenarios.get(name), case, value)
        axis.set_title(title, fontsize=10)
    _growth(axes.flat[5], scenarios.get("growth"))
    machine = report["machine"]
    where = f"{machine['cores']} cores, {machine['cpu']}, {report['date'][:10]}"
    figure.suptitle(f"PostgreSQL {report['postgres']['version']}, {where}", fontsize=10)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _bars(axis: Any, scenario: Document | None, case: int, value: str) -> None:
    rows = scenario["rows"] if scenario else []
    cases = list(dict.fromkeys(row["case"] for row in rows))
    if case >= len(cases):
        axis.set_axis_off()
        return
    heights = {
        row["system"]: row["median"].get(value, row.get(value)) for row in rows if row["case"] == cases[case]
    }
    drawn = [(name, heights[name]) for name in reversed(SYSTEMS) if heights.get(name) is not None]
    names = [name for name, _ in drawn]
    colors = [OURS if name.startswith("flowfabric") else OTHERS for name in names]
    bars = axis.barh(names, [height for _, height in drawn], color=colors)
    axis.bar_label(bars, labels=[number(height) for _, height in drawn], padding=2, fontsize=8)
    axis.margins(x=0.2)
    if value == "p50_ms":
        axis.set_xscale("log")


def _growth(axis: Any, scenario: Document | None) -> None:
    axis.set_title("cost of a cycle over what is stored (x smallest)", fontsize=10)
    rows = scenario["rows"] if scenario else []
    if not rows:
        axis.set_axis_off()
        return
    cases = list(dict.fromkeys(row["case"] for row in rows))
    for system, color in ((FLOOR, OTHERS), ("flowfabric", OURS)):
        values = {row["case"]: row["to_base"] for row in rows if row["system"] == system}
        axis.plot(cases, [values.get(case) for case in cases], marker="o", color=color, label=system)
    axis.axhline(1.5, color="#d1242f", linewidth=0.8, linestyle="--")
    axis.set_ylim(bottom=0)
    axis.legend(fontsize=8)
    axis.tick_params(axis="x", labelsize=8)
