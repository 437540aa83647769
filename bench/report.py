"""A run's report: one JSON document, from which tables for people are made."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.results import Results
from bench.scenarios import Scenario
from bench.systems import FLOOR, SYSTEMS

Document = dict[str, Any]
# What the metrics beside a scenario's own are called in a table.
EXTRA_COLUMNS = {
    "p99_ms": "p99 ms",
    "create_us": "create µs",
    "claim_us": "claim µs",
    "complete_us": "complete µs",
    "end_us": "end µs",
    "server_cpu_us": "server CPU µs",
    "client_cpu_us": "client CPU µs",
    "commits": "commits",
    "dead_rows": "dead rows",
}


def machine() -> Document:
    """What the numbers were measured on."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def document(results: Results, scenarios: Iterable[Scenario], about: Mapping[str, Any]) -> Document:
    """Everything that is known, as JSON."""
    return {
        **about,
        "scenarios": [
            {
                "name": scenario.name,
                "title": scenario.title,
                "metric": scenario.metric,
                "unit": scenario.unit,
                "higher_is_better": scenario.higher_is_better,
                "compares_cases": scenario.compares_cases,
                "shows": scenario.shows,
                "rows": list(results.rows(scenario)),
            }
            for scenario in scenarios
        ],
        "failures": [vars(failure) for failure in results.failures],
    }


def tables(report: Document) -> Iterable[tuple[str, list[str], list[list[str]]]]:
    """Title, columns and cells of a table per case of a scenario, systems in their fixed order."""
    for scenario in report["scenarios"]:
        for case in dict.fromkeys(row["case"] for row in scenario["rows"]):
            rows = [row for row in scenario["rows"] if row["case"] == case]
            rows.sort(key=lambda row: list(SYSTEMS).index(row["system"]))
            yield _table(scenario, case, rows)


def _table(scenario: Document, case: str, rows: Sequence[Document]) -> tuple[str, list[str], list[list[str]]]:
    columns = ["system", scenario["unit"], f"x {FLOOR}"]
    if scenario["compares_cases"]:
        columns.append("x base")
    for name in scenario["shows"]:
        columns.append(EXTRA_COLUMNS[name])
        if name == "server_cpu_us":
            columns += [f"x {FLOOR}", *(["x base"] if scenario["compares_cases"] else [])]
    cells = []
    for row in rows:
        values = [row["median"][scenario["metric"]], row["to_floor"]]
        if scenario["compares_cases"]:
            values.append(row["to_base"])
        for name in scenario["shows"]:
            values.append(row["median"].get(name))
            if name == "server_cpu_us":
                values.append(row["server_cpu_to_floor"])
                if scenario["compares_cases"]:
                    values.append(row["server_cpu_to_base"])
        cells.append([row["system"], *map(number, values)])
    return f"{scenario['name']}: {scenario['title']}; {case}", columns, cells


def number(value: float | None) -> str:
    """Three significant digits, and no exponent."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def show(report: Document, console: Console) -> None:
    """The tables in a terminal."""
    for title, columns, cells in tables(report):
        table = Table(title=title, title_justify="left")
        for column in columns:
            table.add_column(column, justify="left" if column == columns[0] else "right")
        for row in cells:
            table.add_row(*row, style="bold" if row[0].startswith("flowfabric") else None)
        console.print(table)
    for failure in report["failures"]:
        where = f"in {failure['scenario']}" if failure["scenario"] else "before the first scenario"
        console.print(f"[yellow]{failure['system']} failed {where}:[/] {failure['reason']}", highlight=False)
