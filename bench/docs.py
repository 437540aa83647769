"""The results in docs/performance.md: written between two markers, from a report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from bench import ROOT
from bench.report import Document, number
from bench.systems import SYSTEMS

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.png"
BEGIN = "<!-- begin: written by `python -m bench --docs` -->"
END = "<!-- end -->"


def update(report: Document, page: Path = PAGE) -> None:
    """Replace what stands between the markers.

    Raises:
        ValueError: the page has no markers.
    """
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no lines '{BEGIN}' and '{END}'.")
    page.write_text(f"{before}{BEGIN}\n\n{render(report)}\n{END}{after}", encoding="utf-8")


def render(report: Document) -> str:
    """The results as Markdown: a table per scenario, a column per case."""
    return "\n".join([*_header(report), *(line for s in report["scenarios"] for line in _scenario(s))])


def _header(report: Document) -> Iterable[str]:
    machine, postgres = report["machine"], report["postgres"]
    yield (
        f"{report['date'][:10]}: {machine['cpu']}, {machine['cores']} cores for the server and all clients, "
        f"{machine['memory_gb']} GB, {machine['system']}; PostgreSQL {postgres['version']}, "
        f"fsync {postgres['fsync']}, synchronous_commit {postgres['synchronous_commit']}; "
        f"Python {machine['python']}." + (" A quick run: indicative only." if report["quick"] else "")
    )
    yield ""
    versions = (f"{name} {system['version']}" for name, system in report["systems"].items())
    yield f"Versions: {', '.join(version for version in versions if not version.endswith(' -'))}."
    for failure in report["failures"]:
        where = f"in {failure['scenario']}" if failure["scenario"] else "before the first scenario"
        yield f"\nFailed: {failure['system']} {where}: {failure['reason']}."
    yield f"\n![The main results as bars]({PICTURE.name})\n"


def _scenario(scenario: Document) -> Iterable[str]:
    if not scenario["rows"]:
        return
    yield f"### {scenario['name']}: {scenario['title']}"
    yield ""
    yield from _table(scenario, scenario["metric"], scenario["unit"], "to_floor", "to_base")
    if "server_cpu_us" in scenario["shows"]:
        yield from _table(
            scenario,
            "server_cpu_us",
            "server CPU, µs per job",
            "server_cpu_to_floor",
            "server_cpu_to_base",
        )


def _table(scenario: Document, metric: str, unit: str, to_floor: str, to_base: str) -> Iterable[str]:
    cases = list(dict.fromkeys(row["case"] for row in scenario["rows"]))
    cells: dict[str, dict[str, str]] = {}
    for row in scenario["rows"]:
        parts = [number(row["median"].get(metric))]
        if row[to_floor] is not None:
            parts.append(f"{row[to_floor]:.2f}")
        if scenario["compares_cases"] and row[to_base] is not None:
            parts.append(f"[{row[to_base]:.2f}]")
        cells.setdefault(row["system"], {})[row["case"]] = " · ".join(parts)
    yield f"| {unit} | {' | '.join(cases)} |"
    yield f"| --- |{' ---: |' * len(cases)}"
    for name in SYSTEMS:
        if name in cells:
            label = f"**{name}**" if name.startswith("flowfabric") else name
            yield f"| {label} | {' | '.join(cells[name].get(case, '-') for case in cases)} |"
    yield ""
