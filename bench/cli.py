"""The command `python -m bench`, which `flowfabric bench` and `make bench` run too."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import CACHE, docs, peers, plot, report
from bench.runner import OnStep, Runner
from bench.scenarios import SCENARIOS, Scale, Scenario
from bench.server import BenchServer
from bench.systems import SYSTEMS, System
from flowfabric_client.dev import DevServerError


def _names(known: Sequence[str], given: str | None, option: str) -> list[str]:
    """The names of a comma-separated option, in their fixed order; all of them without the option."""
    if given is None:
        return list(known)
    wanted = {name.strip() for name in given.split(",") if name.strip()}
    if unknown := sorted(wanted.difference(known)):
        raise click.UsageError(
            f"{option} does not know {', '.join(unknown)}; it takes some of {', '.join(known)}."
        )
    return [name for name in known if name in wanted]


@contextmanager
def _progress(console: Console, total: int) -> Iterator[OnStep]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        task = progress.add_task("starting", total=total)

        def on_step(step: str) -> None:
            progress.update(task, description=step, advance=1)

        yield on_step


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Everything small: less than three minutes, and noisy.")
@click.option("--scenario", metavar="NAMES", help=f"Only these, with commas: {', '.join(SCENARIOS)}.")
@click.option("--only", metavar="NAMES", help=f"Only these systems, with commas: {', '.join(SYSTEMS)}.")
@click.option("--repeats", type=click.IntRange(1, 100), help="Repeats of every scenario, interleaved.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=CACHE / "bench.json",
    help="Where the report goes. Default: .cache/bench/bench.json.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the order of the systems.")
@click.option(
    "--unflushed",
    is_flag=True,
    help="Commits do not wait for the disk, whose time hides that of the functions: for work on these only.",
)
@click.option("--docs", "write_docs", is_flag=True, help="Write the results into docs/performance.md too.")
@click.option(
    "--report",
    "report_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure nothing: show this earlier report, and make the picture and the docs of it.",
)
def main(
    *,
    write_docs: bool,
    report_file: Path | None,
    quick: bool,
    scenario: str | None,
    only: str | None,
    repeats: int | None,
    json_file: Path,
    seed: int,
    unflushed: bool,
) -> None:
    """Measure FlowFabric and its peers on one private server, side by side. bench/README.md says how."""
    scenarios = [SCENARIOS[name] for name in _names(list(SCENARIOS), scenario, "--scenario")]
    systems = [SYSTEMS[name] for name in _names(list(SYSTEMS), only, "--only")]
    console = Console(width=None if sys.stdout.isatty() else 120)
    if report_file is not None:
        json_file = report_file
        outcome = json.loads(report_file.read_text(encoding="utf-8"))
    else:
        try:
            outcome = _run(console, scenarios, systems, Scale(quick), repeats, seed, flushed=not unflushed)
        except DevServerError as error:
            raise click.ClickException(str(error)) from error
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    report.show(outcome, console)
    _draw(outcome, json_file.with_suffix(".png"), console)
    if write_docs:
        docs.update(outcome)
        _draw(outcome, docs.PICTURE, console)
    console.print(f"Report: {json_file}", soft_wrap=True)


def _draw(outcome: report.Document, picture: Path, console: Console) -> None:
    if plot.available():
        plot.draw(outcome, picture)
        console.print(f"Picture: {picture}", soft_wrap=True)
    else:
        console.print("No picture was drawn: install matplotlib, or flowfabric-client[bench].")


def _run(
    console: Console,
    scenarios: Sequence[Scenario],
    systems: Sequence[System],
    scale: Scale,
    repeats: int | None,
    seed: int,
    *,
    flushed: bool,
) -> report.Document:
    about: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": report.machine(),
    }
    times = {scenario.name: repeats or (1 if scale.quick else scenario.repeats) for scenario in scenarios}
    with console.status("starting") as status:
        unavailable = peers.install({system.runtime for system in systems}, status.update)
    with BenchServer(flushed=flushed) as server:
        runner = Runner(server, systems, seed)
        try:
            with _progress(console, len(systems)) as on_step:
                runner.install(unavailable, on_step)
            steps = sum(
                len(runner.participants(scenario)) * len(scenario.cases(scale)) * times[scenario.name]
                for scenario in scenarios
            )
            with _progress(console, steps) as on_step:
                for scenario in scenarios:
                    runner.run(scenario, scale, times[scenario.name], on_step)
        finally:
            runner.close()
        about |= {
            "quick": scale.quick,
            "seed": seed,
            "postgres": {"version": server.version, "provider": server.provider, **server.settings()},
            "systems": {
                name: {"version": version, "what": SYSTEMS[name].what}
                for name, version in runner.versions.items()
            },
        }
    return report.document(runner.results, scenarios, about)
